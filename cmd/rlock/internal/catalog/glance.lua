-- Says whether a key is a lock or a semaphore that somebody holds or waits for, and what Redis has of it. It only reads, and no more than
-- a few fields and members, whatever the key is.
--
-- KEYS[1] name     hash: holder -> count, and a mode if it is a read-write lock. Or a string: how many permits are free
-- KEYS[2] permits  zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] line     zset: waiter -> Unix us of its arrival. For a fair lock a hash: waiter -> its seat
-- KEYS[4] queue    list: the waiters of a fair lock
-- KEYS[5] token    the latest fencing token
-- The keys after the first may be left out. Then what they say is not known.
-- returns {kind, mode, holder, how many holders, how many waiters, ms of the lease, token, how many permits are free, of how many processes
-- the waiters are or 0 if not all of them are looked at, 1 if the holder has unlocked it and it is kept taken}, or an empty list if it is
-- neither. A permit without a lease has -1 ms. A kind is that of a lock without tokens

local function typeOf(key)
  return key and redis.call('TYPE', key).ok or 'none'
end

-- Returns how many calls wait in the queue of a fair lock, and of how many processes they are, if there are no more than 100. The locks x
-- and {x} have one queue, in which the seats of {x} end differently.
local function queue(lock, key)
  local most, length, ending = 100, redis.call('LLEN', key), string.find(lock, '^{[^{]*}$') and '{}' or ''
  local clients, processes, foreign = {}, 0, 0
  for _, waiter in ipairs(redis.call('LRANGE', key, 0, most - 1)) do
    local seat, client = string.match(waiter, ':%-%d+(.*)$'), string.match(waiter, '^[^:]*')
    if seat and seat ~= ending then
      foreign = foreign + 1
    elseif not clients[client] then
      clients[client], processes = true, processes + 1
    end
  end
  return length - foreign, length <= most and processes or 0
end

local waiters, line = 0, typeOf(KEYS[3])
if line == 'zset' then
  waiters = redis.call('ZCOUNT', KEYS[3], '0', '3e15') -- the members beyond are marks
end

local kind = typeOf(KEYS[1])
if kind == 'hash' then
  local holder
  for _, field in ipairs(redis.call('HRANDFIELD', KEYS[1], 2)) do -- without values, which may be long if it is no lock
    if #field <= 256 and string.match(field, '^%x+%-%x+%-%x+%-%x+%-%x+:') then
      holder = field
    end
  end
  local mode = redis.call('HSTRLEN', KEYS[1], 'mode') <= 5 and redis.call('HGET', KEYS[1], 'mode')
  if not holder or mode and mode ~= 'read' and mode ~= 'write' then
    return {}
  end
  local name, processes, fair = mode or 'lock', waiters, typeOf(KEYS[4]) == 'list'
  if fair or line == 'hash' then
    name, waiters, processes = 'fair', 0, 0
    if fair then
      waiters, processes = queue(KEYS[1], KEYS[4])
    end
  end
  local kept = not mode and redis.call('HSTRLEN', KEYS[1], holder) == 1 and redis.call('HGET', KEYS[1], holder) == '0'
  local token = typeOf(KEYS[5]) == 'string' and redis.call('STRLEN', KEYS[5]) <= 20 and redis.call('GET', KEYS[5])
  local holders = redis.call('HLEN', KEYS[1]) - (mode and 1 or 0)
  return {name, mode or '', holder, holders, waiters, redis.call('PTTL', KEYS[1]), token or '', 0, processes, kept and 1 or 0}
end

local counter = kind == 'string' and redis.call('STRLEN', KEYS[1]) <= 20 and redis.call('GET', KEYS[1])
if not counter or not string.match(counter, '^%-?%d+$') then
  return {}
end
if typeOf(KEYS[2]) == 'zset' then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local over = redis.call('ZCOUNT', KEYS[2], '-inf', string.format('%.0f', now))
  local first = redis.call('ZRANGEBYSCORE', KEYS[2], string.format('(%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if first[1] or waiters > 0 then
    local lease = first[2] and tonumber(first[2]) < 922337203685477 and tonumber(first[2]) - now or first[2] and -1 or 0
    return {'semaphore', '', first[1] or '', redis.call('ZCARD', KEYS[2]) - over, waiters, lease, '', tonumber(counter) + over, waiters, 0}
  end
elseif waiters > 0 then
  return {'plain semaphore', '', '', 0, waiters, -1, '', tonumber(counter), waiters, 0}
end
return {}
