-- Takes the lock if nobody holds it and nobody waits ahead. Otherwise queues, or renews its place in the queue. A repeated call
-- by the holder returns the same and counts nothing.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of waiters, the first one first
-- KEYS[3] deadlines  zset: waiter -> Unix ms from which Redisson counts it as dead
-- KEYS[4] seats      hash: waiter -> number|ms of the lease that a script may give to it, and |t if it needs a token
-- KEYS[5] token      the latest token, or else the tombstones
-- KEYS[6] tombstones hash: number -> Unix ms; only if there is a token
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- ARGV[4] channel    prefix; each waiter listens on a channel of its own
-- ARGV[5] publish    PUBLISH; SPUBLISH if the cluster's pub/sub is sharded, or NODE if it is not
-- ARGV[6] wait       ms that a waiter may be silent; negative means that the caller does not queue
-- ARGV[7] seat       under which it queues; another waiter of its process may have had it before. Absent, as are the following,
--                    if it does not queue
-- ARGV[8] term       ms of the lease that a script may give to it while it waits; 0 means that it is woken instead
-- ARGV[9] again      1 if it has been in the queue, from which it may have been removed; else 0
-- returns the token or 0 when acquired; -1 when the number has a tombstone or its seat; when refused {-1 minus the ms until
-- another attempt may succeed, Unix us, 2 if nobody listens to the channel of its seat here, 4 if somebody does, and 0 if that was
-- not looked up, and 16 more if it asked again and was not in the queue any more, 0 if it queues or else -1}
-- keeps rules A.1, A.3, A.4, A.7, F.1, F.2, H, M.3, R.1, R.2, R.4, R.5, S.4, S.7, S.12, T.3
-- for fair
-- with tokens for fenced fair

local token, tombstones = KEYS[6] and KEYS[5], KEYS[6] or KEYS[5]
-- EXISTS counts a key as often as it is named, so one call tells which of the three there are.
local found = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[2], tombstones, tombstones, tombstones, tombstones)
if found >= 4 then
  if redis.call('HEXISTS', tombstones, ARGV[3]) == 1 then
    return -1
  end
  found = found - 4
end
if found == 0 then -- without functions: Redis would make them at every run, each in the time of a command
  local drawn = token and raise(token) or 0
  redis.call('HSET', KEYS[1], ARGV[1], 1)
  local leased = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if type(leased) == 'table' and leased.err then -- without a lease the lock would stay forever
    redis.call('DEL', KEYS[1])
    return leased
  end
  return drawn
end
local locked, queue = found ~= 2, found ~= 1

local holds = locked and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1

-- Most often somebody has the lock, and a new waiter comes behind nobody, or behind waiters of which the first and the last have
-- seats of this lock, and the first one is reached, so that it watches the lease. Whatever is less simple is left to the functions, and
-- now and then any waiter, because they sweep the seats. If the waiter has no deadline, nobody is in its seat. One that asks again should be told whether a message would reach it.
local wait = tonumber(ARGV[6])
if locked and not holds and wait > 0 and ARGV[9] == '0' and tonumber(ARGV[3]) % 64 ~= 0
  and (ARGV[5] == 'PUBLISH' or ARGV[5] == 'SPUBLISH') then
  local hint, ahead = -1, 0
  if not queue then
    hint = redis.call('PTTL', KEYS[1])
  else
    local head, braced = redis.call('LINDEX', KEYS[2], 0), string.byte(ARGV[7], -1) == 125 -- see foreign
    if string.find(head, SeatInfix, 1, true) and (string.byte(head, -1) == 125) == braced then
      local last = redis.call('LINDEX', KEYS[2], -1)
      local score = redis.call('ZSCORE', KEYS[3], last)
      if score and string.find(last, SeatInfix, 1, true) and (string.byte(last, -1) == 125) == braced then -- it prolonged the same seats
        if redis.call('PUBSUB', ARGV[5] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[4] .. ':' .. head)[2] > 0 then
          hint, ahead = wait, tonumber(score)
        end
      end
    end
  end
  if hint >= 0 then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local deadline = math.max(now + wait, math.floor(ahead)) + fraction(ARGV[7], StateAsked)
    -- Out of memory, Redis refuses this one. The functions know what to do then.
    if redis.pcall('ZADD', KEYS[3], 'NX', string.format('%.17g', deadline), ARGV[7]) == 1 then
      redis.call('RPUSH', KEYS[2], ARGV[7])
      redis.call('HSET', KEYS[4], ARGV[7], ARGV[3] .. '|' .. ARGV[8] .. (token and TokenSuffix or ''))
      -- The last one has prolonged the life of the seats if it came within the same 10 s, or somebody before it has.
      if math.floor((ahead - wait) / 10000) ~= math.floor(now / 10000) then
        redis.call('PEXPIRE', KEYS[4], math.max(wait, 300000) + 10000)
      end
      return {-1 - hint, time[1] * 1000000 + time[2], 0, 0}
    end
  end
end

-- functions
if holds then
  if token then
    return same(KEYS[1], token, ARGV[2])
  end
  extend(KEYS[1], ARGV[2])
  return 0
end

local q, asking = fairLock(KEYS[1], KEYS[2], KEYS[3], KEYS[4], token, ARGV[4], ARGV[5]), ARGV[7] or ''
local before, left, next = tonumber((sitter(q.seats, asking))), 0, nil
if before and before > tonumber(ARGV[3]) then
  return -1 -- this command is late: its process has another waiter there
elseif before and before < tonumber(ARGV[3]) then -- who had the seat before leaves, and that command is late
  if first(KEYS[2]) == asking then
    left = math.max(redis.call('PTTL', KEYS[1]), 0)
    remove(q, asking)
    next = favor(q, q.now + left, 0)
  else
    remove(q, asking)
  end
end

local head, due
if not locked then
  local given, leave, queued, passed = serve(q, asking)
  if not given and not leave then
    local drawn = token and raise(token) or 0
    local failed = create(KEYS[1], ARGV[2], ARGV[1])
    if queued and not failed then
      depart(q, asking, passed, nil, tonumber(ARGV[2]))
    end
    return failed or drawn
  elseif given then
    head = first(KEYS[2])
  end
  due = leave
else
  head, due = evict(q, asking)
  if next and next == head then
    alert(q, 0, nil, left)
  end
end
local heard = 0
if wait > 0 and not enqueue(q, asking, head, wait, ARGV[3], '|' .. ARGV[8] .. (token and TokenSuffix or '')) and ARGV[9] == '1' then
  heard = BitMissed
end
local hint
if head == nil then
  hint = -1 - math.ceil(due - q.now)
elseif not head or head == asking or wait < 0 or not due and deserted(q, asking) then
  hint = refused(KEYS[1], ARGV[2])
else
  -- Only the first waiter that is reached watches the lease. The others are told when they become first, and ask in case it is dead.
  hint = due and -1 - math.floor(due - q.now) or -1 - wait
end
if wait > 0 and q.publish ~= 'NODE' then
  local _, _, hearers = listeners(q.publish, q.channel, q.channel .. ':' .. asking)
  heard = heard + (hearers == 0 and BitUnheard or BitHeard)
end
return {hint, q.micros, heard, wait > 0 and 0 or -1}
