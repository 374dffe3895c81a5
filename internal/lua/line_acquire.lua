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
-- with tokens for fenced, fenced write

local token, tombstones = KEYS[4] and KEYS[3], KEYS[4] or KEYS[3]
-- EXISTS counts a key as often as it is named, so one call tells whether there is a lock or a line, and whether tombstones.
local found = redis.call('EXISTS', KEYS[1], KEYS[2], tombstones, tombstones, tombstones)
if found >= 3 and redis.call('HEXISTS', tombstones, string.match(ARGV[1], ':(%d+)')) == 1 then
  return -1
end
if found % 3 == 0 then -- written out: Redis would make a function at every run, which takes as long as a command
  local drawn = token and raise(token) or 0
  if string.byte(ARGV[1], -1) == 101 then -- it ends with :write
    redis.call('HSET', KEYS[1], ModeField, WriteMode, ARGV[1], '1')
  else
    redis.call('HSET', KEYS[1], ARGV[1], '1')
  end
  local leased = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if leased ~= 1 then -- without a lease the lock would stay forever
    redis.call('DEL', KEYS[1])
    return leased
  end
  return drawn
end

-- functions
local term, publish, client = ARGV[3] or FirstTerm, ARGV[4] or 'PUBLISH', string.match(ARGV[1], '^(.-):')
local base = baseOf(string.byte(ARGV[1], -1) == 101 and RWChannel or LockChannel)
local member = ARGV[1] .. '|' .. term .. (token and TokenSuffix or '')
local held, ttl, now = redis.call('HEXISTS', KEYS[1], ARGV[1]), redis.call('PTTL', KEYS[1]), microseconds()
if held == 0 and ttl >= 0 and term ~= '' then -- written out: it comes for the first time, and enough processes watch
  local _, watchers, hearers = listeners(publish, base, beside(base, client))
  if (watchers >= 2 or summoned(KEYS[2], now)) and enlist(KEYS[2], now, member) then
    return {-1 - ttl, now, hearers == 0 and BitUnheard or BitHeard, redis.call('ZRANK', KEYS[2], member)}
  end
end

-- functions
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
    if term == '' then -- it is one of the others
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
        forewarn(KEYS[2], 0, publish, base, math.min(ARGV[2], FirstTerm), now) -- however long the lease is: the next one may not watch yet
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
