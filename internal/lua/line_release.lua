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
-- with tokens for fenced, fenced write

local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- fails if the key is now of another type
local left
if not ARGV[5] or ARGV[5] == '0' then
  left = redis.pcall('EXISTS', KEYS[1], KEYS[2])
  if left == 0 and not ARGV[6] then -- written out: Redis would make a function at every run, which takes as long as a command
    if freed ~= 1 or ARGV[3] == '-' then
      return freed
    end
    if not ARGV[4] then
      redis.call('PUBLISH', ARGV[2], MessageFree)
      return 1
    end
    if ARGV[4] == 'SPUBLISH' then
      redis.call('SPUBLISH', ARGV[2], MessageFree)
      return 1
    end
  end
end

-- functions
local base, standing, publish = ARGV[2], ARGV[3] or '', ARGV[4] or 'PUBLISH'
local mine, next, soon = ARGV[1] .. '|' .. standing, ARGV[6], nil
local side = string.byte(ARGV[1], -1) == 101 and WriteMode or nil -- it ends with :write
if left == 1 and freed == 1 and not side then -- written out: the first waiter is reached, and nobody else listens who knows of no line
  local first, now = redis.pcall('ZRANGE', KEYS[2], '0', '1', 'WITHSCORES'), microseconds()
  local holder, client, number, term = string.match(first[1] or '', '^((.-):(%d+))|([1-9]%d*)$')
  if holder and first[1] ~= mine and first[1] ~= next
    and not (next and redis.pcall('HEXISTS', KEYS[4] or KEYS[3], string.match(next, ':(%d+)')) ~= 0) then
    local own = beside(base, client)
    local others, _, hearers = listeners(publish, base, own)
    local gone = others == 0 and hearers > 0
      and redis.pcall('ZREM', KEYS[2], first[1], WaiterMark .. first[1], mine, WaiterMark .. mine)
    if type(gone) == 'number' then
      redis.pcall('HSET', KEYS[1], holder, '1')
      local told = redis.pcall('PEXPIRE', KEYS[1], term) == 1
        and select(2, pcall(announce, publish, own, string.format(MessageGranted .. ' %s %.0f %s 0', number, now, term)))
      if type(told) ~= 'number' or told == 0 then
        redis.pcall('DEL', KEYS[1])
        redis.pcall('ZADD', KEYS[2], first[2], first[1])
      elseif gone == 1 and (not first[3] or not marks(first[3]) and tonumber(term) == FirstTerm and now - first[4] < 2e6) then
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

-- functions
if soon then -- the rest of that
  tidy(KEYS[2])
  forewarn(KEYS[2], 0, publish, base, soon[1], soon[2])
  append(KEYS[2], soon[2], next or '')
  return {1, soon[2], 1, 0, 0, 0}
end
if side and left == 1 and freed == 1 and not next then
  local rest = redis.pcall('HGETALL', KEYS[1])
  if #rest == 2 and rest[1] == ModeField then -- nobody reads, and nobody is in the line
    redis.call('DEL', KEYS[1])
    announceFree(publish, base, WriteMode)
    return 1
  end
end

-- functions
local token, tombstones, following = KEYS[4] and KEYS[3], KEYS[4] or KEYS[3], next or ''
local number = string.match(ARGV[1], ':(%d+)')
local able, reply = pcall(abandon, tombstones, number, ARGV[5] or 0)
if side and freed == 1 then
  local reads = leaveWrite(KEYS[1], number)
  if reads > 0 then
    -- Those who wait read with it, before the writers of the line. A mark alone would stay for ever.
    if redis.pcall('ZREM', KEYS[2], ReadersMark) == 1 and redis.pcall('EXISTS', KEYS[2]) == 1 then
      redis.pcall('ZADD', KEYS[2], string.format('%.0f', OfferScore + microseconds()), OfferMark)
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
-- A release that frees nothing may be a late repetition: its next holder may have come and gone.
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
  if able and others == 0 and token and string.sub(following, -2) == TokenSuffix then
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

-- functions
-- While a slot moves, a cluster does not answer whether a key is gone. What a user has no right to is not hidden, though.
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
  return leads and tried(freed, pcall(function() -- however long the lease is: the next one may not watch it yet
    forewarn(KEYS[2], 0, publish, base, math.max(0, math.min(redis.call('PTTL', KEYS[1]), FirstTerm)), microseconds())
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
