-- 54c1c45ceac83713cc833a085ab165fc1158d902 semaphore_acquire
-- Generated from ../semaphore_acquire.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Takes permits if enough are free. Permits whose leases are over are taken back if they are needed. A repeated call finds
-- its permits, takes nothing, and returns how many are left now. If some were taken back meanwhile, it starts over.
--
-- Permits that those need who stand in the line before it are not free for it. If it is refused, it stands in the line, unless it does
-- not wait, or there is none.
--
-- KEYS[1] semaphore  a string: how many permits are free
-- KEYS[2] leases     zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] tombstones hash: number -> Unix ms
-- KEYS[4] line       zset: waiter -> Unix us of its arrival; absent if the client knows of no line
-- ARGV[1] holder     and after a further colon how many permits it wants, if more than one
-- ARGV[2] lease      ms
-- ARGV[3] id         of the last one of its permits
-- ARGV[4] standing   0 or absent, which ends its member of the line; empty means that it does not wait
-- ARGV[5] publish    SPUBLISH if the cluster's pub/sub is sharded, or BOTH; absent or PUBLISH otherwise
-- ARGV[6] sets up    1 if its caller sets the semaphore up when nobody has, so that it does not wait for that; may be absent
-- returns how many permits are left when acquired; -1 when the number has a tombstone; when refused {-1 minus the ms until
-- another attempt may help, Unix us or 0, 1 if the process is asked to watch plus 2 if nobody listens to its channel here and 4 if
-- somebody does plus 8 if the semaphore is not set up, how many stand before it or -1 if it does not stand in the line}
-- keeps rules A.1, A.3, S.1, S.4, S.7, S.9, S.12
-- for semaphore

local found = KEYS[4] and redis.call('EXISTS', KEYS[3], KEYS[3], KEYS[4]) or redis.call('EXISTS', KEYS[3], KEYS[3])
if found >= 2 and redis.call('HEXISTS', KEYS[3], string.match(ARGV[1], ':(%d+)')) == 1 then
  return -1
end
local free = redis.call('GET', KEYS[1])
if found % 2 == 0 and string.sub(ARGV[3], 15) == '\0\0' and free and string.find(free, '^[1-9]%d?%d?%d?$') then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if redis.call('ZADD', KEYS[2], 'NX', string.format('%.0f', now + ARGV[2]), ARGV[3]) == 1 then
    local left = redis.pcall('DECRBY', KEYS[1], '1')
    if type(left) == 'table' then
      redis.call('ZREM', KEYS[2], ARGV[3])
      return left
    end
    local ttl = redis.call('PTTL', KEYS[1])
    if ttl > 0 then
      redis.call('PEXPIRE', KEYS[2], ttl)
    end
    return left
  end
end
local function counter(key)
  local value = redis.call('GET', key)
  if not value then
    return nil
  end
  if #value > 18 or not string.match(value, '^%-?%d+$') then
    local shown = string.gsub(string.sub(value, 1, 64), '[%c\127-\255]', '?')
    return nil, redis.error_reply('ERR the value is not a count: "' .. shown .. '"')
  end
  return tonumber(value)
end
local function microseconds()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function baseOf(prefix)
  return prefix .. ':' .. (string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}')
end
local function idsOf(last)
  local ids, high, low = {}, string.byte(last, 15, 16)
  for i = 0, high * 256 + low do
    ids[i + 1] = string.sub(last, 1, 14) .. string.char(math.floor(i / 256), i % 256)
  end
  return ids
end
local function scored(ids, score)
  local args = {}
  for _, id in ipairs(ids) do
    args[#args + 1] = score
    args[#args + 1] = id
  end
  return unpack(args)
end
local function take(semaphore, leases, ids)
  local left = redis.pcall('DECRBY', semaphore, #ids)
  if type(left) == 'table' then
    redis.call('ZREM', leases, unpack(ids))
    return left
  end
  local ttl = redis.call('PTTL', semaphore)
  if ttl > 0 then
    redis.call('PEXPIRE', leases, ttl)
  end
  return left
end
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
local waits, publish, base = ARGV[4] ~= '', ARGV[5] or 'PUBLISH', baseOf('redisson_sc')
if not value and (not KEYS[4] or not waits or ARGV[6] == '1') then
  return {-86400001, 0, 8, -1}
end
local ids, micros = idsOf(ARGV[3]), microseconds()
local now = math.floor(micros / 1000)
local score = string.format('%.0f', now + ARGV[2])
local were
if value and value >= #ids and found % 2 == 0 then
  local added = redis.call('ZADD', KEYS[2], 'NX', scored(ids, score))
  if added == #ids then
    return take(KEYS[1], KEYS[2], ids)
  end
  were = #ids - added
end
local function hearers(publish, channel)
  local counts = publish ~= 'BOTH' and redis.pcall('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return counts and counts[2]
end
local function announce(publish, channel, message)
  if publish == 'BOTH' then
    return announce('SPUBLISH', channel, message) + announce('PUBLISH', channel, message)
  end
  local receivers = redis.pcall(publish, channel, message)
  return type(receivers) == 'number' and receivers or 0
end
local function beside(base, what)
  return base .. ':' .. what .. (string.byte(KEYS[1]) == 123 and string.find(KEYS[1], '^{[^{]*}$') and '{}' or '')
end
local function listeners(publish, base, own)
  local counts = publish ~= 'BOTH'
    and redis.pcall('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', base, beside(base, 'rlock-twin'), own or base)
  if not counts or counts.err or not counts[4] then
    return 1, 2
  end
  return math.max(counts[2] - counts[4], 0), counts[4], counts[6]
end
local function mayRemove(line)
  redis.call('ZREM', line, '!')
end
local function marks(member)
  local first = string.byte(member)
  return first == 33 or first == 35
end
local function tidy(line)
  local first = redis.call('ZRANGE', line, 0, 0)[1]
  if first and first ~= '#r' and marks(first) then
    redis.call('DEL', line)
  end
end
local function forget(line, member)
  if redis.call('ZREM', line, member, '!' .. member) > 0 then
    tidy(line)
  end
end
local function summoned(line, now)
  local at = tonumber(redis.call('ZSCORE', line, '#w') or nil)
  local age = at and math.floor(now / 1000) - (at - 6e15)
  return age and age >= 0 and age < 1000
end
local function unwatched(line, watchers, now, urgent)
  if watchers >= 2 or not (urgent and watchers == 0) and summoned(line, now) then
    return false
  end
  redis.call('ZADD', line, string.format('%.0f', 6e15 + math.floor(now / 1000)), '#w')
  return true
end
local function latest(line)
  return redis.call('ZREVRANGEBYSCORE', line, 3e15, 0, 'LIMIT', 0, 10)
end
local function hears(publish, channel)
  return (hearers(publish, channel) or announce(publish, channel, '9')) > 0
end
local function deliver(publish, channel, message)
  local receivers = announce(publish, channel, message)
  return receivers > 0 and (hearers(publish, channel) or receivers) > 0
end
local function summon(last, publish, base, but)
  for _, member in ipairs(last) do
    local client = string.match(member, '^(.-):') or ''
    if client ~= but and deliver(publish, beside(base, client), '7') then
      return
    end
  end
end
local function forewarn(line, place, publish, base, lease, now)
  for next = place, tonumber(lease) <= 3000 and place + 15 or -1 do
    local behind = redis.call('ZRANGE', line, next, next, 'WITHSCORES')
    if not behind[1] or marks(behind[1]) or tonumber(lease) == 3000 and now - behind[2] < 2e6 then
      return
    end
    local client, number = string.match(behind[1], '^(.-):(%d+)')
    if deliver(publish, beside(base, client or ''), string.format('9 %s %s', number or 0, lease)) then
      return
    end
  end
end
local function enlist(line, now, member)
  redis.call('ZREM', line, '!' .. member)
  local added = redis.call('ZADD', line, 'NX', string.format('%.0f', now), member)
  redis.call('PEXPIRE', line, '300000')
  return added == 1
end
local function ahead(line, place, publish, base)
  for dead = 0, math.min(place, 64) - 1 do
    local client = string.match(redis.call('ZRANGE', line, dead, dead)[1], '^(.-):')
    if client and hears(publish, beside(base, client)) then
      return place - dead
    end
  end
  return math.max(place - 64, 0)
end
local function stand(line, member, publish, base, now, hint, more)
  local new = enlist(line, now, member)
  local place, tell = redis.call('ZRANK', line, member), more or 0
  if place > 3 and not new then
    place = ahead(line, place, publish, base)
  end
  local client = string.match(member, '^(.-):')
  local _, watchers, hearers = listeners(publish, base, beside(base, client))
  if hearers then
    tell = tell + (hearers == 0 and 2 or 4)
  end
  if unwatched(line, watchers, now) then
    tell = tell + 1
    summon(latest(line), publish, base, client)
  end
  return {hint, now, tell, place}
end
local function lengthen(leases, ids, score)
  for _, id in ipairs(ids) do
    if tonumber(redis.call('ZSCORE', leases, id)) < tonumber(score) then
      redis.call('ZADD', leases, 'XX', score, id)
    end
  end
end
local function out(leases, ids)
  local n = 0
  for _, id in ipairs(ids) do
    local score = redis.pcall('ZSCORE', leases, id)
    if type(score) == 'table' and not string.find(score.err, 'WRONGTYPE', 1, true) then
      return score
    end
    n = n + (type(score) == 'string' and 1 or 0)
  end
  return n
end
local function giveBack(semaphore, leases, ids)
  local value = redis.pcall('INCRBY', semaphore, #ids)
  if type(value) == 'table' then
    redis.pcall('ZADD', leases, scored(ids, 1))
  end
  return value
end
local function reclaim(semaphore, leases, now)
  local n, over = 0, nil
  repeat
    over = redis.call('ZRANGEBYSCORE', leases, '-inf', string.format('%.0f', now), 'LIMIT', 0, 1000)
    if over[1] then
      redis.call('ZREM', leases, unpack(over))
      local value = giveBack(semaphore, leases, over)
      if type(value) == 'table' then
        return value
      end
      n = n + #over
    end
  until #over < 1000
  return n
end
local function announceValue(publish, channel, value)
  if value > 0 then
    announce(publish, channel, string.format('%.0f', math.min(value, 2147483647)))
  end
end
local function wanted(member)
  return tonumber(string.match(member, ':%d+:(%d+)|') or 1)
end
local function stops(line, member, publish, base, ms)
  local mark = '!' .. member
  local at = tonumber(redis.call('ZSCORE', line, mark) or nil) or 0
  local age = ms - (at - 7.5e15)
  if at > 0 and at < 8e15 and age >= 0 then
    return age < 10000
  end
  local reached = hears(publish, beside(base, string.match(member, '^(.-):')))
  if reached then
    redis.call('ZADD', line, string.format('%.0f', 7.5e15 + ms), mark)
  end
  return reached
end
local function tellFirst(line, free, total, publish, base, now, asker, waiting)
  local ms, place, size, told, mine = math.floor(now / 1000), 0, 2, false, false
  local client = waiting and string.match(asker, '^(.-):')
  local rest, over = 3000, false
  while not over do
    local batch = redis.call('ZRANGE', line, place, place + size - 1)
    for _, member in ipairs(batch) do
      if marks(member) then
        if place == 0 then
          redis.call('DEL', line)
        end
        batch = {}
        break
      end
      local wants = wanted(member)
      if wants > free then
        if free <= 0 or wants <= (total or 0) and (member == asker or stops(line, member, publish, base, ms)) then
          over = true
          break
        end
        place = place + 1
        if member == asker then
          asker = nil
        end
      elseif member == asker then
        mine, asker, client, free, place = true, nil, nil, free - wants, place + 1
      else
        local mark, its = '!' .. member, string.match(member, '^(.-):')
        local at = tonumber(redis.call('ZSCORE', line, mark) or nil) or 0
        local asked = at >= 8e15 and at < 8.5e15
        local age = ms - (asked and at - 8e15 or at - 8.5e15)
        local fresh = at < 8e15 or age < 0
        if its == client then
          place = place + 1
        elseif asked and not fresh and age < 3000 then
          free, place, rest = free - wants, place + 1, math.min(rest, 3000 - age)
        elseif asked and not fresh then
          redis.call('ZREM', line, member, mark)
        elseif deliver(publish, beside(base, its), '8') then
          redis.call('ZADD', line, string.format('%.0f', 8e15 + ms), mark)
          free, place, told = free - wants, place + 1, true
        elseif not fresh and age >= 3000 then
          redis.call('ZREM', line, member, mark)
        else
          if fresh then
            redis.call('ZADD', line, string.format('%.0f', 8.5e15 + ms), mark)
          end
          place = place + 1
        end
      end
    end
    if #batch < size then
      break
    end
    size = 100
  end
  if asker and not over then
    mine = free >= wanted(asker)
  end
  if told then
    forewarn(line, place, publish, base, 3000, now)
  end
  return mine, rest
end
local member = ARGV[1] .. '|0'
if not value then
  return stand(KEYS[4], member, publish, base, micros, -86400001, 8)
end
if KEYS[4] then
  mayRemove(KEYS[4])
end
were = were or out(KEYS[2], ids)
if type(were) == 'table' then
  return were
elseif were == #ids then
  lengthen(KEYS[2], ids, score)
  return math.max(value, 0)
elseif were > 0 then
  redis.call('ZREM', KEYS[2], unpack(ids))
  value = redis.call('INCRBY', KEYS[1], were)
end
local reclaimed = reclaim(KEYS[1], KEYS[2], now)
if type(reclaimed) == 'table' then
  return reclaimed
end
value = value + reclaimed
local enough, rest = value >= #ids, 3000
if KEYS[4] then
  enough, rest = tellFirst(KEYS[4], value, value + redis.call('ZCARD', KEYS[2]), publish, base, micros, member, waits)
end
if enough then
  redis.call('ZADD', KEYS[2], scored(ids, score))
  value = take(KEYS[1], KEYS[2], ids)
  if KEYS[4] then
    forget(KEYS[4], member)
  end
  if reclaimed > 0 and type(value) == 'number' then
    announceValue(publish, base, value)
  end
  return value
end
if reclaimed > 0 then
  announceValue(publish, base, value)
end
local next = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
local hint = -1 - math.min((tonumber(next) or 1e15) - now, value >= #ids and rest or 86400000)
if KEYS[4] and waits then
  return stand(KEYS[4], member, publish, base, micros, hint)
end
return {hint, 0, 0, -1}
