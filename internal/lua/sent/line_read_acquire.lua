-- 2d2641c6c8305be7d76e31673805cc8f3eedfab5 line_read_acquire
-- Generated from ../line_read_acquire.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Takes the read lock unless another owner holds the write lock, or this reader has to wait for a writer that stands in the line: one
-- that came before it, if no writer has left the lock since the reader came. A repeated call by the holder counts nothing.
--
-- KEYS[1] lock       hash: mode -> read or write, holder -> count
-- KEYS[2] line       zset: waiter -> Unix us of its arrival
-- KEYS[3] hold       a string that lives as long as this hold
-- KEYS[4] tombstones hash: number -> Unix ms
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- ARGV[4] base       Redisson's channel
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] waited     us since the reader came; negative if it does not wait
-- ARGV[7] writer     the field with which the same owner holds the write lock; empty if it does not
-- returns 0 when acquired; when refused, -1 minus the ms until another attempt may succeed
-- keeps rules A.1, A.3, A.4, A.6, A.7, G.1, G.5, S.1, S.4, S.9, S.12
-- for read

local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
local function create(lock, lease, holder, mode)
  mode = mode or string.sub(holder, -6) == ':write' and 'write'
  if mode then
    redis.call('HSET', lock, 'mode', mode, holder, '1')
  else
    redis.call('HSET', lock, holder, '1')
  end
  local leased = redis.pcall('PEXPIRE', lock, lease)
  if type(leased) == 'table' and leased.err then
    redis.call('DEL', lock)
    return leased
  end
end
local function read(lock, hold, holder, lease, free)
  redis.call('SET', hold, 1, 'PX', math.max(redis.call('PTTL', hold), tonumber(lease)))
  if free then
    return create(lock, lease, holder, 'read') or 0
  end
  if redis.call('HEXISTS', lock, holder) == 0 then
    redis.call('HSET', lock, holder, 1)
  end
  extend(lock, lease)
  return 0
end
if redis.call('HEXISTS', KEYS[4], ARGV[3]) == 1 then
  return -1
end
local mode = redis.call('HGET', KEYS[1], 'mode')
local free = not mode and redis.call('EXISTS', KEYS[1]) == 0
local held = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
local may = held or free or mode == 'read' or mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[7]) == 1
local joins = not held and may and mode ~= 'write'
if may and not (joins and redis.pcall('EXISTS', KEYS[2]) ~= 0) then
  return read(KEYS[1], KEYS[3], ARGV[1], ARGV[2], free)
end
local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function isLock(key, client)
  local all = redis.call('HLEN', key) <= 1000 and redis.call('HGETALL', key) or {}
  for i = 1, #all, 2 do
    local holder = string.gsub(all[i], ':' .. string.rep('%x', 32) .. '$', '')
    local ending = string.match(all[i + 1], '^%d+$') and string.match(holder, '^' .. client .. ':%-?%d+(.*)$')
    if all[i] == 'mode' then
      ending = (all[i + 1] == 'read' or all[i + 1] == 'write') and ''
    end
    if ending ~= '' and ending ~= ':write' then
      return false
    end
  end
  return #all > 0
end
local function refused(key, lease)
  local ttl = redis.call('PTTL', key)
  if ttl < 0 then
    if isLock(key, redis.call('HEXISTS', key, 'mode') == 1 and '.+' or '%x+%-%x+%-%x+%-%x+%-%x+') then
      ttl = math.max(30000, tonumber(lease))
      redis.call('PEXPIRE', key, ttl)
    else
      ttl = 86400000
    end
  end
  return -1 - ttl
end
local function hearers(publish, channel)
  return redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)[2]
end
local function announce(publish, channel, message)
  return redis.call(publish, channel, message)
end
local function microseconds()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function beside(base, what)
  return base .. ':' .. what .. (string.byte(KEYS[1]) == 123 and string.find(KEYS[1], '^{[^{]*}$') and '{}' or '')
end
local function listeners(publish, base, own)
  local counts = redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', base, beside(base, 'rlock-twin'), own or base)
  return math.max(counts[2] - counts[4], 0), counts[4], counts[6]
end
local function denied(why)
  local text = type(why) == 'table' and why.err or tostring(why)
  return string.find(text, "The user executing the script can't", 1, true) or string.find(text, 'ACL failure in script', 1, true)
    or string.find(text, 'NOPERM', 1, true)
end
local function failure(why)
  return type(why) == 'table' and why or redis.error_reply(why)
end
local function hand(lock, publish, channel, message)
  local able, receivers = pcall(announce, publish, channel, message)
  if able and receivers > 0 then
    return true
  end
  redis.call('DEL', lock)
  return not able and error(receivers)
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
local function offered(line, now, pump)
  local at = tonumber(redis.call('ZSCORE', line, '#o') or nil)
  local age = at and now - (at - 4e15)
  return age and age >= 0 and age < (pump and 1000 or 10000)
end
local function hears(publish, channel)
  return hearers(publish, channel) > 0
end
local function deliver(publish, channel, message)
  return announce(publish, channel, message) > 0 and hears(publish, channel)
end
local function turns(line)
  return math.max((tonumber(redis.call('ZSCORE', line, '#n') or nil) or 7e15) - 7e15, 0)
end
local function count(line, others, times)
  if others > 0 and redis.call('EXISTS', line) == 1 then
    redis.call('ZADD', line, string.format('%.0f', 7e15 + (times or turns(line) + 1)), '#n')
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
local function grant(lock, line, token, publish, base, now, asker, others)
  local passed, size, drawn = 0, 2, nil
  local waits = asker and string.match(asker, '^(.-):[^|]*|%d')
  while true do
    local batch = redis.call('ZRANGE', line, passed, passed + size - 1)
    for i, member in ipairs(batch) do
      if member == asker then
        return member
      elseif marks(member) then
        if passed == 0 and not (asker and member == '#r') then
          redis.call('DEL', line)
        end
        return false
      end
      local holder, client, number, term, wants = string.match(member, '^((.-):(%d+):?%a*)|(%d+)|?(t?)$')
      local asks, reached = term == '0' or wants == 't' and not token, 0
      if asks then
        reached = client ~= waits and deliver(publish, beside(base, client), '8') and 1 or 0
      elseif holder and hears(publish, beside(base, client)) then
        if wants == 't' and not drawn then
          drawn = raise(token)
        end
        local failed = create(lock, term, holder)
        local message = string.format('6 %s %.0f %s %.0f', number, now, term, wants == 't' and drawn or 0)
        reached = not failed and hand(lock, publish, beside(base, client), message) and 1 or 0
      end
      local mark = '!' .. member
      if reached > 0 and not asks then
        local behind = batch[i + 1]
        if passed > 0 or behind and (behind == '#r' or not marks(behind)) then
          redis.call('ZREM', line, member, mark)
        elseif i == 1 then
          redis.call('DEL', line)
          return member
        else
          forget(line, member)
        end
        forewarn(line, passed, publish, base, term, now)
        count(line, others or listeners(publish, base))
        return member
      end
      local at, ms = tonumber(redis.call('ZSCORE', line, mark) or nil), math.floor(now / 1000)
      local age = at and ms - (at - 8e15)
      if age and age >= 3000 then
        redis.call('ZREM', line, member, mark)
      else
        if not age or age < 0 then
          redis.call('ZADD', line, string.format('%.0f', 8e15 + ms), mark)
          if asks then
            forewarn(line, passed + 1, publish, base, 3000, now)
          end
        end
        if reached > 0 then
          return false, true
        end
        passed = passed + 1
      end
    end
    if #batch < size then
      return false
    end
    size = 100
  end
end
local function noteReaders(line)
  redis.pcall('ZREM', line, '#r')
  redis.pcall('ZADD', line, string.format('%.0f', 3.5e15 + milliseconds()), '#r')
  redis.pcall('PEXPIRE', line, '300000')
end
local function behindWriter(line, now, came, publish, base)
  local left = (tonumber(redis.call('ZSCORE', line, '#o') or nil) or 4e15) - 4e15
  if came <= left and left <= now then
    return false
  end
  for place = 0, 63 do
    local writer = redis.call('ZRANGE', line, place, place, 'WITHSCORES')
    if not writer[1] or marks(writer[1]) or came < tonumber(writer[2]) then
      return false
    end
    if now - writer[2] < 100000 or hears(publish, beside(base, string.match(writer[1], '^(.-):') or '')) then
      return true
    end
  end
  return false
end
local function yield(lock, line, free, waited, publish, base)
  local now = microseconds()
  if not behindWriter(line, now, now - waited, publish, base) then
    return
  end
  if not free then
    local ttl = redis.call('PTTL', lock)
    return -1 - (ttl < 0 and 3000 or math.min(3000, ttl))
  end
  if offered(line, now) then
    return -1 - 10
  end
  mayRemove(line)
  redis.call('PEXPIRE', line, '300000')
  local given, asked = grant(lock, line, nil, publish, base, now)
  return (given or asked) and -1 - 3000 or nil
end
local waits = tonumber(ARGV[6]) >= 0
if joins then
  local able, hint = pcall(yield, KEYS[1], KEYS[2], free, ARGV[6], ARGV[5], ARGV[4])
  if not able and denied(hint) then
    return failure(hint)
  end
  if not (able and hint or free and redis.call('EXISTS', KEYS[1]) == 1) then
    return read(KEYS[1], KEYS[3], ARGV[1], ARGV[2], free)
  end
  if waits then
    noteReaders(KEYS[2])
  end
  return able and hint or -1 - 3000
end
if waits and mode == 'write' then
  noteReaders(KEYS[2])
end
return refused(KEYS[1], ARGV[2])
