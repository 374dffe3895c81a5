-- 6d6b561e627be9fcca69813f87311cc5ea4a4484 line_release
-- Generated from ../line_release.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Frees the lock, whatever its count is, or leaves the line. Gives the lock to the first waiter of the line that is reached,
-- or else to the next holder of this process. In turn, offers it to others, which know of no line. Read holds of the owner of a
-- write lock remain, and then the lock is one for readers.
--
-- KEYS[1] lock   hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] line   zset: waiter -> Unix us of its arrival
-- KEYS[3] token  the latest token, or else the tombstones, absent if there is neither ARGV[5] nor ARGV[6]
-- KEYS[4] tombstones  hash: number -> Unix ms; only if there is a token
-- ARGV[1] holder
-- ARGV[2] base      Redisson's channel
-- ARGV[3] standing  ends its member of the line; absent or empty means that it never stood there, and - that its kind never does and
-- tells nobody of a release for which nobody stands in the line
-- ARGV[4] publish   SPUBLISH if the cluster's pub/sub is sharded; absent or PUBLISH otherwise
-- ARGV[5] lifetime  ms of the number's tombstone; 0 or absent (no tombstone) when every command with this number got a reply
-- ARGV[6] next      the member of the next holder of this process; absent if there is none, as is the following
-- ARGV[7] lease     ms, of the next holder
-- returns 1 when freed, 0 when not held; where somebody else is concerned {1 or 0, Unix us, what, the token of the next holder
-- or 0, 1 if the process is asked to watch or else 0, how many others listen}. what is 1 if a waiter has the lock, 2 if the
-- next holder has it, 3 if it is offered to others, which the caller must follow up, and otherwise 0; for 1 and
-- 3 the next holder stands in the line
-- keeps rules A.1, A.5, A.6, G.3, G.4, S.1, S.2, S.3, S.4, S.7, S.9, S.11, S.12, S.16
-- for lock, spin, write

local freed = redis.pcall('HDEL', KEYS[1], ARGV[1])
local left
if not ARGV[5] or ARGV[5] == '0' then
  left = redis.pcall('EXISTS', KEYS[1], KEYS[2])
  if left == 0 and not ARGV[6] then
    if freed ~= 1 or ARGV[3] == '-' then
      return freed
    end
    if not ARGV[4] then
      redis.call('PUBLISH', ARGV[2], '0')
      return 1
    end
    if ARGV[4] == 'SPUBLISH' then
      redis.call('SPUBLISH', ARGV[2], '0')
      return 1
    end
  end
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
local function marks(member)
  local first = string.byte(member)
  return first == 33 or first == 35
end
local function enlist(line, now, member)
  redis.call('ZREM', line, '!' .. member)
  local added = redis.call('ZADD', line, 'NX', string.format('%.0f', now), member)
  redis.call('PEXPIRE', line, '300000')
  return added == 1
end
local base, standing, publish = ARGV[2], ARGV[3] or '', ARGV[4] or 'PUBLISH'
local mine, next, soon = ARGV[1] .. '|' .. standing, ARGV[6], nil
local side = string.byte(ARGV[1], -1) == 101 and 'write' or nil
if left == 1 and freed == 1 and not side then
  local first, now = redis.pcall('ZRANGE', KEYS[2], '0', '1', 'WITHSCORES'), microseconds()
  local holder, client, number, term = string.match(first[1] or '', '^((.-):(%d+))|([1-9]%d*)$')
  if holder and first[1] ~= mine and first[1] ~= next
    and not (next and redis.pcall('HEXISTS', KEYS[4] or KEYS[3], string.match(next, ':(%d+)')) ~= 0) then
    local own = beside(base, client)
    local others, _, hearers = listeners(publish, base, own)
    local gone = others == 0 and hearers > 0
      and redis.pcall('ZREM', KEYS[2], first[1], '!' .. first[1], mine, '!' .. mine)
    if type(gone) == 'number' then
      redis.pcall('HSET', KEYS[1], holder, '1')
      local told = redis.pcall('PEXPIRE', KEYS[1], term) == 1
        and select(2, pcall(announce, publish, own, string.format('6 %s %.0f %s 0', number, now, term)))
      if type(told) ~= 'number' or told == 0 then
        redis.pcall('DEL', KEYS[1])
        redis.pcall('ZADD', KEYS[2], first[2], first[1])
      elseif gone == 1 and (not first[3] or not marks(first[3]) and tonumber(term) == 3000 and now - first[4] < 2e6) then
        if next then
          enlist(KEYS[2], now, next)
        end
        return {1, now, 1, 0, 0, 0}
      else
        soon = {term, now}
      end
    end
  end
end
local function hearers(publish, channel)
  return redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)[2]
end
local function announceFree(publish, channel, side)
  if side == 'write' then
    announce(publish, channel, '1')
  end
  return announce(publish, channel, '0')
end
local function tidy(line)
  local first = redis.call('ZRANGE', line, 0, 0)[1]
  if first and first ~= '#r' and marks(first) then
    redis.call('DEL', line)
  end
end
local function hears(publish, channel)
  return hearers(publish, channel) > 0
end
local function deliver(publish, channel, message)
  return announce(publish, channel, message) > 0 and hears(publish, channel)
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
local function append(line, now, following)
  if following ~= '' then
    enlist(line, now, following)
  end
end
if soon then
  tidy(KEYS[2])
  forewarn(KEYS[2], 0, publish, base, soon[1], soon[2])
  append(KEYS[2], soon[2], next or '')
  return {1, soon[2], 1, 0, 0, 0}
end
if side and left == 1 and freed == 1 and not next then
  local rest = redis.pcall('HGETALL', KEYS[1])
  if #rest == 2 and rest[1] == 'mode' then
    redis.call('DEL', KEYS[1])
    announceFree(publish, base, 'write')
    return 1
  end
end
local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function sweep(key, number, now)
  local size = redis.pcall('HLEN', key)
  if type(size) ~= 'number' or size % 128 ~= 0 then
    return
  end
  local all
  if size <= 1024 then
    all = redis.pcall('HGETALL', key)
  else
    all = redis.pcall('HSCAN', key, string.format('%.0f', number * 2654435761 % 4294967296), 'COUNT', 300)[2] or {}
  end
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]) < now then
      redis.pcall('HDEL', key, all[i])
    end
  end
end
local function abandon(key, number, memory, answer)
  memory = tonumber(memory)
  if memory == 0 then
    return
  end
  local now = milliseconds()
  redis.call('HSET', key, number, string.format('%.0f', now + memory) .. (answer or ''))
  extend(key, memory)
  sweep(key, number, now)
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
local function longest(lock, size, ttl, number)
  local prefix = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  local few, most, looks, cursor = size <= 17, 0, 0, '0'
  if ttl < 0 then
    ttl = 30000
  end
  if size > 200 then
    cursor = string.format('%.0f', number % 65536 * 2654435761 % 4294967296)
  end
  repeat
    local fields
    if few then
      fields = redis.call('HGETALL', lock)
    else
      local page = redis.pcall('HSCAN', lock, cursor, 'COUNT', 16)
      if page.err then
        return ttl
      end
      cursor, fields = page[1], page[2]
    end
    for i = 1, #fields, 2 do
      for entry = 1, fields[i] ~= 'mode' and math.max(tonumber(fields[i + 1]) or 0, 1) or 0 do
        if looks == 200 then
          return math.max(ttl, most)
        end
        looks = looks + 1
        local hold = prefix .. ':' .. fields[i] .. ':rwlock_timeout:' .. entry
        local left = redis.pcall('PTTL', hold)
        if type(left) == 'table' or left == -2 and type(redis.pcall('EXISTS', lock, hold)) == 'table' then
          return math.max(ttl, most)
        end
        most = math.max(most, left)
        if not few and 2 * most >= ttl then
          return math.max(ttl, most)
        end
      end
    end
  until few or cursor == '0' and size <= 200
  return most
end
local function leaveWrite(lock, number)
  local size = redis.call('HLEN', lock)
  local left = size > 1 and longest(lock, size, redis.call('PTTL', lock), number) or 0
  if left > 0 then
    redis.call('HSET', lock, 'mode', 'read')
    redis.call('PEXPIRE', lock, left)
  else
    redis.call('DEL', lock)
  end
  return left
end
local function denied(why)
  local text = type(why) == 'table' and why.err or tostring(why)
  return string.find(text, "The user executing the script can't", 1, true) or string.find(text, 'ACL failure in script', 1, true)
    or string.find(text, 'NOPERM', 1, true)
end
local function failure(why)
  return type(why) == 'table' and why or redis.error_reply(why)
end
local function tried(reply, able, why)
  return not able and denied(why) and failure(why) or reply
end
local token, tombstones, following = KEYS[4] and KEYS[3], KEYS[4] or KEYS[3], next or ''
local number = string.match(ARGV[1], ':(%d+)')
local able, reply = pcall(abandon, tombstones, number, ARGV[5] or 0)
if side and freed == 1 then
  local reads = leaveWrite(KEYS[1], number)
  if reads > 0 then
    if redis.pcall('ZREM', KEYS[2], '#r') == 1 and redis.pcall('EXISTS', KEYS[2]) == 1 then
      redis.pcall('ZADD', KEYS[2], string.format('%.0f', 4e15 + microseconds()), '#o')
    end
    announceFree(publish, base, side)
    return able and tried(1, pcall(forewarn, KEYS[2], 0, publish, base, reads)) or failure(reply)
  end
  left = nil
end
if not able then
  if freed == 1 and standing ~= '-' then
    announceFree(publish, base, side)
  end
  return failure(reply)
end
if freed ~= 1 or following ~= '' and redis.call('HEXISTS', tombstones, string.match(following, ':(%d+)')) == 1 then
  following = ''
end
left = left or redis.pcall('EXISTS', KEYS[1], KEYS[2])
if left == 0 then
  if following == '' then
    if freed == 1 and standing ~= '-' then
      announceFree(publish, base, side)
    end
    return freed
  end
  local others = listeners(publish, base)
  local now, drawn = microseconds(), 0
  if able and others == 0 and token and string.sub(following, -2) == '|t' then
    able, drawn = pcall(raise, token)
  end
  if others == 0 then
    if able and not create(KEYS[1], ARGV[7], string.match(following, '^[^|]*')) then
      return {1, now, 2, drawn, 0, 0}
    end
    announceFree(publish, base, side)
    return 1
  end
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
local function summon(last, publish, base, but)
  for _, member in ipairs(last) do
    local client = string.match(member, '^(.-):') or ''
    if client ~= but and deliver(publish, beside(base, client), '7') then
      return
    end
  end
end
local function turns(line)
  return math.max((tonumber(redis.call('ZSCORE', line, '#n') or nil) or 7e15) - 7e15, 0)
end
local function count(line, others, times)
  if others > 0 and redis.call('EXISTS', line) == 1 then
    redis.call('ZADD', line, string.format('%.0f', 7e15 + (times or turns(line) + 1)), '#n')
  end
end
local function tellOthers(publish, base, watchers, side)
  for _, message in ipairs(side == 'write' and {'1', '0'} or {'0'}) do
    if watchers > 0 then
      announce(publish, beside(base, 'rlock-twin'), '5')
    end
    announce(publish, base, message)
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
local function callReaders(lock, line, publish, base)
  if redis.pcall('HGET', lock, 'mode') ~= 'write' and redis.pcall('ZREM', line, '#r') == 1 then
    announceFree(publish, base, 'write')
  end
end
local function offer(line, publish, base, now, watchers, side)
  redis.call('ZADD', line, string.format('%.0f', 4e15 + now), '#o', string.format('%.0f', 7e15), '#n')
  tellOthers(publish, base, watchers, side)
end
local function pass(lock, line, token, publish, base, now, side, freed, following, lease)
  local others, watchers = listeners(publish, base)
  if not freed and offered(line, now) then
    return {0, now, 3, 0, 0, others}
  end
  local what, drawn, waiting = 0, 0, following == '' and 0 or 1
  if others > 0 and freed and side ~= 'read' then
    waiting = waiting + redis.call('ZCOUNT', line, 0, 3e15)
  end
  local times = waiting > 0 and others > 0 and turns(line) + 1 or 1
  if waiting > 0 and others > 0
    and (side == 'write' and redis.call('ZREM', line, '#r') == 1 or times * others >= waiting) then
    what = 3
    append(line, now, following)
    offer(line, publish, base, now, watchers, side)
  else
    local given, asked = grant(lock, line, token, publish, base, now, nil, others)
    if given or asked then
      what = 1
      append(line, now, given == following and '' or following)
      if given and following ~= '' then
        count(line, others, times)
      end
    elseif following ~= '' then
      local able = true
      if token and string.sub(following, -2) == '|t' then
        able, drawn = pcall(raise, token)
      end
      if able and not create(lock, lease, string.match(following, '^[^|]*')) then
        what = 2
        forget(line, following)
        count(line, others)
      end
    end
    if what == 0 and freed then
      announceFree(publish, base, side)
    end
  end
  local watch = 0
  if others > 0 and watchers < 2 then
    local last = latest(line)
    if last[1] and unwatched(line, watchers, now, what == 3) then
      if following ~= '' then
        watch = 1
      else
        summon(last, publish, base)
      end
    end
  end
  return {freed and 1 or 0, now, what, what == 2 and drawn or 0, watch, others}
end
local stood, leads = standing ~= '' and standing ~= '-', false
able = true
if stood then
  leads = freed == 0 and redis.pcall('ZRANK', KEYS[2], mine) == 0
  able, reply = pcall(forget, KEYS[2], mine)
  able = able or not denied(reply)
  if side and freed ~= 1 then
    callReaders(KEYS[1], KEYS[2], publish, base)
  end
end
if able and (type(freed) == 'table' or type(left) == 'number' and redis.call('EXISTS', KEYS[1]) == 1) then
  return leads and tried(freed, pcall(function()
    forewarn(KEYS[2], 0, publish, base, math.max(0, math.min(redis.call('PTTL', KEYS[1]), 3000)), microseconds())
  end)) or freed
end
if able and type(left) == 'number' then
  able, reply = pcall(function()
    if not stood then
      mayRemove(KEYS[2])
    end
    return pass(KEYS[1], KEYS[2], token, publish, base, microseconds(), side, freed == 1, following, ARGV[7])
  end)
  if able then
    return reply
  end
end
if freed == 1 then
  announceFree(publish, base, side)
end
return tried(freed, able, reply)
