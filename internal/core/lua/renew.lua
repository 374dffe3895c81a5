-- Renews holds of one slot, each only for its holder.
-- KEYS locks
-- ARGV 1 lease in ms, then for each lock the field of its holder
-- Returns 1 for each that was renewed, and 0 for each that is gone.
local renewed = {}
for i, key in ipairs(KEYS) do
  renewed[i] = redis.call('HEXISTS', key, ARGV[i + 1])
  if renewed[i] == 1 then
    redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), ARGV[1]))
  end
end
return renewed
