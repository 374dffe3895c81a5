-- Takes the lock if nobody has it and nobody waits; otherwise stands in the line, or asks whether it still stands there.
-- KEYS lock line token
-- ARGV 1 field 2 lease in ms 3 notAfter, in us of Redis 4 try, new or again 5 flags 6 how to publish
-- Returns the token, or without the flag t the time in us; {0, us, ms of the lease that is in the way, place, how many connections hear the
-- asker's own channel, number of the holder if it is of the asker's client} when refused; {-1, us, 0, 0, 0, 0} when it stands in the line no
-- more; {-2, us, 0, 0, 0, 0} when the command is late.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local left = ARGV[3] - now
if left < 0 or left > 60000000 then
  return {-2, now, 0, 0, 0, 0}
end
--@create
if ARGV[4] ~= 'again' and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then -- the short way: it is free, and nobody waits
  local token = create(ARGV[1], ARGV[2], ARGV[5], now)
  return token > 0 and token or now
end
--@lock
local member = ARGV[1] .. '|' .. ARGV[2] .. '|' .. ARGV[5]
local token = 0
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  if ARGV[4] == 'new' then
    redis.call('ZADD', KEYS[2], 'NX', now, member)
  elseif ARGV[4] == 'again' and not redis.call('ZSCORE', KEYS[2], member) then
    return {-1, now, 0, 0, 0, 0}
  end
  redis.call('PEXPIRE', KEYS[2], 600000)
  if redis.call('EXISTS', KEYS[1]) == 0 then
    if redis.call('EXISTS', KEYS[2]) == 0 then
      token = create(ARGV[1], ARGV[2], ARGV[5], now)
    else
      token = pass(now, member)
    end
  end
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    local holder, ghost = redis.call('HKEYS', KEYS[1])[1] or '', 0
    if string.sub(holder, 1, 37) == string.sub(ARGV[1], 1, 37) then
      ghost = tonumber(string.match(holder, ':(%d+)$') or 0)
    end
    return {0, now, redis.call('PTTL', KEYS[1]), redis.call('ZRANK', KEYS[2], member) or -1, hear(ARGV[1]), ghost}
  end
else -- the command was repeated, or a release gave the lock to the asker
  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[2]))
  if ARGV[5] == 't' then
    token = tonumber(redis.call('GET', KEYS[3]) or 0)
  end
end
return token > 0 and token or now
