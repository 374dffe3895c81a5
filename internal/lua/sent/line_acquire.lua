-- 9fedb509335ee2ff6fe54ce6e6ecc2cda3d07ed8 line_acquire
-- Generated from ../line_acquire.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Takes the lock if nobody holds it and nobody waits. Otherwise stands in the line, unless it does not wait: then it may take a
-- lock that is offered to others. A repeated call by the holder returns the same and counts nothing.
--
-- KEYS[1] lock   hash: holder -> count
-- KEYS[2] line   zset: waiter -> Unix us of its arrival
-- KEYS[3] token  the latest token, or else the tombstones
-- KEYS[4] tombstones  hash: number -> Unix ms; only if there is a token
-- ARGV[1] holder
-- ARGV[2] lease    ms
-- ARGV[3] term     ms of the lease that a script may give to it while it waits, absent for 3000; 0 means that it is woken instead,
-- and empty that it does not wait
-- ARGV[4] publish  SPUBLISH if the cluster's pub/sub is sharded; absent for PUBLISH
-- returns the token or 0 when acquired; -1 when the number has a tombstone; when refused {-1 minus the ms until another
-- attempt may succeed, Unix us, 1 if the process is asked to watch plus 2 if nobody listens to its channel here and 4 if somebody
-- does, how many stand before it, without dead ones at the front if that is of importance, or else -1}
-- keeps rules A.1, A.3, A.4, A.7, H, M.3, S.1, S.4, S.7, S.9, S.10, S.11, S.12
-- for lock, spin, write

local token, tombstones = KEYS[4] and KEYS[3], KEYS[4] or KEYS[3]
local found = redis.call('EXISTS', KEYS[1], KEYS[2], tombstones, tombstones, tombstones)
if found >= 3 and redis.call('HEXISTS', tombstones, string.match(ARGV[1], ':(%d+)')) == 1 then
  return -1
end
if found % 3 == 0 then
  local drawn = token and raise(token) or 0
  if string.byte(ARGV[1], -1) == 101 then
    redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[1], '1')
  else
    redis.call('HSET', KEYS[1], ARGV[1], '1')
  end
  local leased = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if leased ~= 1 then
    redis.call('DEL', KEYS[1])
    return leased
  end
  return drawn
end
local function microseconds()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function baseOf(prefix)
  return prefix .. ':' .. (string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}')
end
local function beside(base, what)
  return base .. ':' .. what .. (string.byte(KEYS[1]) == 123 and string.find(KEYS[1], '^{[^{]*}$') and '{}' or '')
end
local function listeners(publish, base, own)
  local counts = redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', base, beside(base, 'rlock-twin'), own or base)
  return math.max(counts[2] - counts[4], 0), counts[4], counts[6]
end
local function summoned(line, now)
  local at = tonumber(redis.call('ZSCORE', line, '#w') or nil)
  local age = at and math.floor(now / 1000) - (at - 6e15)
  return age and age >= 0 and age < 1000
end
local function enlist(line, now, member)
  redis.call('ZREM', line, '!' .. member)
  local added = redis.call('ZADD', line, 'NX', string.format('%.0f', now), member)
  redis.call('PEXPIRE', line, '300000')
  return added == 1
end
local term, publish, client = ARGV[3] or 3000, ARGV[4] or 'PUBLISH', string.match(ARGV[1], '^(.-):')
local base = baseOf(string.byte(ARGV[1], -1) == 101 and 'redisson_rwlock' or 'redisson_lock__channel')
local member = ARGV[1] .. '|' .. term .. (token and '|t' or '')
local held, ttl, now = redis.call('HEXISTS', KEYS[1], ARGV[1]), redis.call('PTTL', KEYS[1]), microseconds()
if held == 0 and ttl >= 0 and term ~= '' then
  local _, watchers, hearers = listeners(publish, base, beside(base, client))
  if (watchers >= 2 or summoned(KEYS[2], now)) and enlist(KEYS[2], now, member) then
    return {-1 - ttl, now, hearers == 0 and 2 or 4, redis.call('ZRANK', KEYS[2], member)}
  end
end
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
  return hearers(publish, channel) > 0
end
local function deliver(publish, channel, message)
  return announce(publish, channel, message) > 0 and hears(publish, channel)
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
  tell = tell + (hearers == 0 and 2 or 4)
  if unwatched(line, watchers, now) then
    tell = tell + 1
    summon(latest(line), publish, base, client)
  end
  return {hint, now, tell, place}
end
if held == 1 then
  if token then
    return same(KEYS[1], token, ARGV[2])
  end
  extend(KEYS[1], ARGV[2])
  return 0
end
local hint
if ttl == -2 then
  if offered(KEYS[2], now) then
    if term == '' then
      local drawn = token and raise(token) or 0
      return create(KEYS[1], ARGV[2], ARGV[1]) or drawn
    end
    hint = -1 - 10
  else
    mayRemove(KEYS[2])
    redis.call('PEXPIRE', KEYS[2], 300000)
    local given, asked = grant(KEYS[1], KEYS[2], token, publish, base, now, member)
    if asked then
      hint = -1 - 20
    elseif not given or given == member then
      local drawn = token and raise(token) or 0
      if given then
        forget(KEYS[2], member)
        forewarn(KEYS[2], 0, publish, base, math.min(ARGV[2], 3000), now)
        count(KEYS[2], (listeners(publish, base)))
      end
      return create(KEYS[1], ARGV[2], ARGV[1]) or drawn
    end
  end
elseif ttl >= 0 then
  hint = -1 - ttl
end
if term ~= '' then
  return stand(KEYS[2], member, publish, base, now, hint or refused(KEYS[1], ARGV[2]))
end
return {hint or refused(KEYS[1], ARGV[2]), now, 0, -1}
