-- Takes permits if enough are free and nobody waits; otherwise stands in the line, or asks whether it still stands there.
-- KEYS count line leases
-- ARGV 1 field 2 lease in ms 3 notAfter, in us of Redis 4 try, new or again 5 how many permits 6 public channel 7 what the ids of its permits begin
-- with 8 how to publish
-- Returns the time in us; {0, us, ms until the next lease ends or -1, place, how many connections hear the asker's own channel, -1 if nobody has
-- set the semaphore up} when refused; {-1, us, 0, 0, 0, 0} when it stands in the line no more; {-2, us, 0, 0, 0, 0} when the command is late.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local left = ARGV[3] - now
if left < 0 or left > 60000000 then
  return {-2, now, 0, 0, 0, 0}
end
if ARGV[5] == '1' and ARGV[4] ~= 'again' and redis.call('EXISTS', KEYS[2]) == 0 then -- the short way: one permit, and nobody waits
  local id, free = ARGV[7] .. '\0\0', redis.call('GET', KEYS[1])
  if free and string.find(free, '^[1-9]%d?%d?%d?$') and
    redis.call('ZADD', KEYS[3], 'NX', string.format('%.0f', math.floor(now / 1000) + ARGV[2]), id) == 1 then
    redis.call('DECRBY', KEYS[1], 1)
    local ttl = redis.call('PTTL', KEYS[1])
    if ttl > 0 then
      redis.call('PEXPIRE', KEYS[3], ttl)
    end
    return now
  end
end
--@permits
local member, wants = ARGV[1] .. '|' .. ARGV[2] .. '|' .. ARGV[5], tonumber(ARGV[5])
local free, wrong = count()
if wrong then
  return wrong
end
local mine, has = ids(ARGV[1], wants), 0
for _, id in ipairs(mine) do
  has = has + (redis.call('ZSCORE', KEYS[3], id) and 1 or 0)
end
if has == wants then -- the command was repeated, or a release gave them to the asker
  local ends = math.floor(now / 1000) + ARGV[2]
  for _, id in ipairs(mine) do
    if tonumber(redis.call('ZSCORE', KEYS[3], id)) < ends then
      redis.call('ZADD', KEYS[3], 'XX', string.format('%.0f', ends), id)
    end
  end
  return now
elseif has > 0 then -- others have taken back the rest
  redis.call('ZREM', KEYS[3], unpack(mine))
  free = redis.call('INCRBY', KEYS[1], has)
end
if ARGV[4] ~= 'again' and free and free >= wants and redis.call('EXISTS', KEYS[2]) == 0 then
  take(ARGV[1], wants, now, ARGV[2])
  return now
end
if ARGV[4] == 'new' then
  redis.call('ZADD', KEYS[2], 'NX', now, member)
elseif ARGV[4] == 'again' and not redis.call('ZSCORE', KEYS[2], member) then
  return {-1, now, 0, 0, 0, 0}
end
redis.call('PEXPIRE', KEYS[2], 600000)
local back, n = free and reclaim(now) or 0, others(ARGV[6])
local got = serve(now, member, n > 0)
if not got and free and count() >= wants and redis.call('EXISTS', KEYS[2]) == 0 then
  take(ARGV[1], wants, now, ARGV[2])
  got = true
end
if back > 0 and n > 0 then
  announce(ARGV[6])
end
if got then
  return now
end
return {0, now, rest(now), redis.call('ZRANK', KEYS[2], member) or -1, hear(ARGV[1]), free and 0 or -1}
