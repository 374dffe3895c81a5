-- Moves a key's expiry, only ever later; a key that has none gets one. Being a PEXPIRE, it is accepted when Redis is
-- out of memory, and whatever the script writes after it is accepted with it.
local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end

