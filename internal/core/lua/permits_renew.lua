-- Renews the permits of holders of one slot, each only if the holder has all of them.
-- KEYS leases of their semaphores
-- ARGV 1 lease in ms, then for each the field of its holder, and after a | how many permits it has
-- Returns 1 for each that was renewed, and 0 for each that is gone.
local t = redis.call('TIME')
local ends = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[1]
--@permits
local renewed = {}
for i, key in ipairs(KEYS) do
  local field, has = string.match(ARGV[i + 1], '^(.*)|(%d+)$')
  local mine = ids(field, has)
  redis.call('ZREM', key, '') -- Redis then accepts the rest even when it is out of memory
  renewed[i] = 1
  for _, id in ipairs(mine) do
    if not redis.call('ZSCORE', key, id) then
      renewed[i] = 0
    end
  end
  for _, id in ipairs(renewed[i] == 1 and mine or {}) do
    if tonumber(redis.call('ZSCORE', key, id)) < ends then
      redis.call('ZADD', key, 'XX', string.format('%.0f', ends), id)
    end
  end
end
return renewed
