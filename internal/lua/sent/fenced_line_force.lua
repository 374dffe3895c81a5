-- 61226e8db810e4908fc6fb9025c42a7bd60d9269 fenced_line_force
-- Generated from ../line_force.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Frees the lock for any holder, and gives it to the first waiter of the line that is reached. If it was free already, a
-- waiter gets it, too.
--
-- KEYS[1] lock   hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] line   zset: waiter -> Unix us of its arrival
-- KEYS[3] token  the latest token, or else the tombstones
-- KEYS[4] tombstones  hash: number -> Unix ms; only if there is a token
-- ARGV[4] base     Redisson's channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] side     read or write for a lock with a mode, which is freed only from that; - when nobody is told of a release that
-- gives the lock to nobody
-- ARGV[7] holders  only these may have the lock, separated by line breaks; empty means anybody
-- returns {1, Unix us} when freed, 0 when nobody held it, or others
-- keeps rules G.3, P.9, S.1, S.2, S.4, S.12
-- with tokens for fenced, fenced write

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
local function heldByOthers(lock, holders)
  local allowed, count = {}, 0
  for holder in string.gmatch(holders, '[^\n]+') do
    allowed[holder], count = true, count + 1
  end
  if count == 0 or redis.call('HLEN', lock) > count + 1 then
    return count > 0
  end
  local fields = redis.call('HGETALL', lock)
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' and not allowed[fields[i]] then
      return true
    end
  end
  return false
end
local function forced(lock, side, holders)
  local large = redis.call('HLEN', lock) > 1000
  if not (large and redis.call('HEXISTS', lock, 'mode') == 1 or isLock(lock, '.+')) or heldByOthers(lock, holders)
    or (side == 'read' or side == 'write') and redis.call('HGET', lock, 'mode') ~= side then
    return false
  end
  redis.call('DEL', lock)
  return true
end
local function hearers(publish, channel)
  return redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)[2]
end
local function announce(publish, channel, message)
  return redis.call(publish, channel, message)
end
local function raise(key)
  local time = redis.call('TIME')
  local token = redis.call('INCR', key)
  local now = time[1] * 1000000 + time[2]
  if token < now then
    token = now
    redis.call('SET', key, string.format('%.0f', token))
  end
  return token
end
local function announceFree(publish, channel, side)
  if side == 'write' then
    announce(publish, channel, '1')
  end
  return announce(publish, channel, '0')
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
local function tried(reply, able, why)
  return not able and denied(why) and failure(why) or reply
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
local freed, now, side = forced(KEYS[1], ARGV[6], ARGV[7]), microseconds(), ARGV[6]
if not freed and redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
local able, given, asked = true, false, nil
if redis.call('EXISTS', KEYS[2]) == 0 then
  if not freed then
    return 0
  end
elseif redis.call('PEXPIRE', KEYS[2], 300000) == 1 and (freed or not offered(KEYS[2], now)) then
  able, given, asked = pcall(function()
    mayRemove(KEYS[2])
    return grant(KEYS[1], KEYS[2], KEYS[4] and KEYS[3], ARGV[5], ARGV[4], now)
  end)
end
if freed and side ~= '-' and not (able and (given or asked)) then
  announceFree(ARGV[5], ARGV[4], side)
end
return tried(freed and {1, now} or 0, able, given)
