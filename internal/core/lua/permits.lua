-- What the scripts of permits with leases share. KEYS are the count of free permits, the line, and the leases: a zset of the ids of permits that
-- are out, with the ms at which their leases end. The flags of a waiter are how many permits it wants.
--@line

-- The ids of a holder's permits have 16 bytes, as Redisson's have: 8 of its client, 6 of its number, and 2 that count them.
local function ids(field, wants)
  local client, number = string.match(field, '^([^:]+):(%d+)')
  local digits = string.sub(client, 1, 8) .. string.sub(client, 10, 13) .. string.sub(client, 33, 36)
  local stem = string.gsub(digits .. string.format('%012x', tonumber(number) % 281474976710656), '%x%x', function(byte)
    return string.char(tonumber(byte, 16))
  end)
  local all = {}
  for i = 0, wants - 1 do
    all[i + 1] = stem .. string.char(math.floor(i / 256), i % 256)
  end
  return all
end

-- How many permits are free, or nil if nobody has set the semaphore up. If the key has something else, the result is nil and an error.
local function count()
  local value = redis.call('GET', KEYS[1])
  if value and (#value > 18 or not string.match(value, '^%-?%d+$')) then
    local shown = string.gsub(string.sub(value, 1, 64), '[%c\127-\255]', '?')
    return nil, redis.error_reply('ERR the value is not a count: "' .. shown .. '"')
  end
  return tonumber(value or nil)
end

-- The ms until the next lease ends, or -1.
local function rest(now)
  local next = tonumber(redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2] or nil)
  return next and math.max(math.min(next - math.floor(now / 1000), 86400000), 0) or -1
end

-- Takes back permits whose leases are over. Returns how many.
local function reclaim(now)
  local n, over = 0, nil
  repeat
    over = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', math.floor(now / 1000), 'LIMIT', 0, 1000)
    if over[1] then
      redis.call('ZREM', KEYS[3], unpack(over))
      redis.call('INCRBY', KEYS[1], #over)
      n = n + #over
    end
  until #over < 1000
  return n
end

-- Takes permits that are free. Their leases go with the semaphore, if that expires.
local function take(field, wants, now, lease)
  local ends, args = string.format('%.0f', math.floor(now / 1000) + lease), {}
  for _, id in ipairs(ids(field, wants)) do
    args[#args + 1] = ends
    args[#args + 1] = id
  end
  redis.call('ZADD', KEYS[3], unpack(args))
  redis.call('DECRBY', KEYS[1], wants)
  local ttl = redis.call('PTTL', KEYS[1])
  if ttl > 0 then
    redis.call('PEXPIRE', KEYS[3], ttl)
  end
end

-- Gives what is free to the first of the line, for 3 s at most, in which they renew. Who is not heard at its turn loses its place. Who wants more
-- than are free stops those behind it, unless there are not so many in all. asker needs no message, and gets its whole lease. Returns whether it
-- has its permits.
local function serve(now, asker, anyway)
  local free, place, changed, got = count() or 0, 0, false, false
  while free > 0 do
    local member = redis.call('ZRANGE', KEYS[2], place, place)[1]
    if not member then
      break
    end
    local field, lease, wants = string.match(member, '^([^|]+)|(%d+)|(%d+)$')
    wants = tonumber(wants)
    if member ~= asker and hear(field) == 0 then
      redis.call('ZREM', KEYS[2], member)
      changed = true
    elseif wants <= free then
      redis.call('ZREM', KEYS[2], member)
      local term = member == asker and lease or math.min(lease, 3000)
      take(field, wants, now, term)
      free, changed = free - wants, true
      if member == asker then
        got = true
      else
        publish(own(field), string.format('6 %s %.0f %d 0 %d', string.match(field, ':(%d+)'), now, term, wants))
      end
    elseif wants <= free + redis.call('ZCARD', KEYS[3]) then
      break
    else
      place = place + 1
    end
  end
  if changed then
    warn(now, rest(now), anyway)
  end
  return got
end

-- Tells those who know of no line how many permits are free.
local function announce(base)
  local free = count() or 0
  if free > 0 then
    publish(base, string.format('%.0f', math.min(free, 2147483647)))
  end
end
