-- Frees the lock, whatever its count is, or leaves the line. Gives the lock to the first waiter of the line that is reached,
-- or else to the next holder of this process. In turn, offers it to others, which know of no line. Read holds of the owner of a
-- write lock remain, and then the lock is one for readers.
--
-- KEYS[1] lock   hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] line   zset: waiter -> Unix us of its arrival
-- KEYS[3] token  the latest token, or else the tombstones
-- KEYS[4] tombstones  hash: number -> Unix ms; only if there is a token
-- ARGV[1] holder
-- ARGV[2] lifetime  ms of the number's tombstone; 0 (no tombstone) when every command with this number got a reply
-- ARGV[3] number    of the holder
-- ARGV[4] base      Redisson's channel
-- ARGV[5] publish   PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] standing  ends its member of the line; empty means that it never stood there, and - that its kind never does and
-- tells nobody of a release for which nobody stands in the line
-- ARGV[7] next      the member of the next holder of this process; absent if there is none, as are the following
-- ARGV[8] lease     ms, of the next holder
-- ARGV[9] number    of the next holder
-- returns 1 when freed, 0 when not held; where somebody else is concerned {1 or 0, Unix us, what, the token of the next holder
-- or 0, 1 if the process is asked to watch or else 0, how many others listen}. what is 1 if a waiter has the lock, 2 if the
-- next holder has it, 3 if it is offered to others, which the caller must follow up, and otherwise 0; for 1 and
-- 3 the next holder stands in the line
-- keeps rules A.1, A.5, A.6, G.3, G.4, S.1, S.2, S.3, S.4, S.7, S.9, S.11, S.12
-- for lock, spin, write
-- with tokens for fenced, fenced write

local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- fails if the key is now of another type
local plain, left = not ARGV[7] and ARGV[2] == '0', nil
if plain then
  left = redis.pcall('EXISTS', KEYS[1], KEYS[2])
  if left == 0 then -- written out: Redis would make a function at every run, which takes as long as a command
    if freed ~= 1 or ARGV[6] == '-' then
      return freed
    end
    if ARGV[5] == 'PUBLISH' then
      redis.pcall('PUBLISH', ARGV[4], MessageFree)
      return 1
    end
    if ARGV[5] == 'SPUBLISH' then
      redis.pcall('SPUBLISH', ARGV[4], MessageFree)
      return 1
    end
  end
end

-- functions
if plain and left == 1 and freed == 1 and string.sub(ARGV[1], -6) == WriteSuffix then
  local rest = redis.pcall('HGETALL', KEYS[1])
  if #rest == 2 and rest[1] == ModeField then -- nobody reads, and nobody is in the line
    redis.call('DEL', KEYS[1])
    announceFree(ARGV[5], ARGV[4], WriteMode)
    return 1
  end
end

-- functions
local token, tombstones, following = KEYS[4] and KEYS[3], KEYS[4] or KEYS[3], ARGV[7] or ''
local side = string.sub(ARGV[1], -6) == WriteSuffix and WriteMode or nil
local able, reply = pcall(abandon, tombstones, ARGV[3], ARGV[2])
if side and freed == 1 then
  local reads = leaveWrite(KEYS[1], ARGV[3])
  if reads > 0 then
    announceFree(ARGV[5], ARGV[4], side)
    pcall(forewarn, KEYS[2], 0, ARGV[5], ARGV[4], reads)
    return able and 1 or failure(reply)
  end
  left = nil
end
if not able then
  if freed == 1 and ARGV[6] ~= '-' then
    announceFree(ARGV[5], ARGV[4], side)
  end
  return failure(reply)
end
-- A release that frees nothing may be a late repetition: its next holder may have come and gone.
if freed ~= 1 or following ~= '' and redis.call('HEXISTS', tombstones, ARGV[9]) == 1 then
  following = ''
end
left = left or redis.pcall('EXISTS', KEYS[1], KEYS[2])
if left == 0 then
  if following == '' then
    if freed == 1 and ARGV[6] ~= '-' then
      announceFree(ARGV[5], ARGV[4], side)
    end
    return freed
  end
  local others = listeners(ARGV[5], ARGV[4])
  local now, drawn = nil, 0
  able, now = pcall(microseconds)
  if able and others == 0 and token and string.sub(following, -2) == TokenSuffix then
    able, drawn = pcall(raise, token)
  end
  if others == 0 then
    if able and not create(KEYS[1], ARGV[8], string.match(following, '^[^|]*')) then
      return {1, now, 2, drawn, 0, 0}
    end
    announceFree(ARGV[5], ARGV[4], side)
    return 1
  end
end

-- functions
-- While a slot moves, a cluster does not answer whether a key is gone. What a user has no right to is not hidden, though.
local stood = ARGV[6] ~= '' and ARGV[6] ~= '-'
able = true
if stood then
  able, reply = pcall(forget, KEYS[2], ARGV[1] .. '|' .. ARGV[6])
  able = able or not denied(reply)
end
if able and (type(freed) == 'table' or type(left) == 'number' and redis.call('EXISTS', KEYS[1]) == 1) then
  return freed
end
if able and type(left) == 'number' then
  able, reply = pcall(function()
    if not stood then
      mayRemove(KEYS[2])
    end
    return pass(KEYS[1], KEYS[2], token, ARGV[5], ARGV[4], microseconds(), side, freed == 1, following, ARGV[8])
  end)
  if able then
    return reply
  end
end
if freed == 1 then
  announceFree(ARGV[5], ARGV[4], side)
end
if not able and denied(reply) then
  return failure(reply)
end
return freed
