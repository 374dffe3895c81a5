-- Takes the lock if nobody holds it and nobody waits ahead. Otherwise queues, or renews its place in the queue.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of waiters, the first one first
-- KEYS[3] deadlines  zset: waiter -> Unix ms from which it counts as dead
-- KEYS[4] tombstones hash: number -> Unix ms
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- ARGV[4] channel    prefix; each waiter listens on a channel of its own
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] wait       ms that a waiter may be silent; negative means that the caller does not queue
-- returns 0 when acquired; when refused, -1 minus the ms until another attempt may succeed

if redis.call('HEXISTS', KEYS[4], ARGV[3]) == 1 then
  return -1
end

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  extend(KEYS[1], ARGV[2])
  return 0
end

local now, wait = milliseconds(), math.abs(tonumber(ARGV[6]))
local head, evicted = evict(KEYS[2], KEYS[3], now, wait, ARGV[1])
local free = redis.call('EXISTS', KEYS[1]) == 0
if free and (not head or head == ARGV[1]) then
  local failed = create(KEYS[1], ARGV[2], ARGV[1], 1)
  if failed then
    return failed
  end
  if head then
    redis.call('LPOP', KEYS[2])
    redis.call('ZREM', KEYS[3], ARGV[1])
    local behind = redis.call('LRANGE', KEYS[2], 0, -1)
    hasten(KEYS[3], behind, wait)
    if behind[1] then
      wake(ARGV[5], ARGV[4], behind[1]) -- it is first now, and must watch the lease
    end
  end
  return 0
end

if evicted and head and head ~= ARGV[1] then
  wake(ARGV[5], ARGV[4], head)
end
local position
if tonumber(ARGV[6]) > 0 then
  position = redis.call('LPOS', KEYS[2], ARGV[1])
  if not position then
    position = redis.call('RPUSH', KEYS[2], ARGV[1]) - 1
  end
  -- Deadlines form a chain, as in Redisson: each waiter may be silent for its wait after the deadline of the waiter
  -- before it. The minimum makes up for the time that waiters ahead subtract when they leave. A lease counts for at
  -- most one wait, because a waiter does not sleep longer than that.
  local base
  if position > 0 then
    base = redis.call('ZSCORE', KEYS[3], redis.call('LINDEX', KEYS[2], position - 1))
  end
  base = base and tonumber(base) or now + math.min(math.max(redis.call('PTTL', KEYS[1]), 0), wait)
  local deadline = math.floor(math.max(base + wait, now + (position + 1) * wait)) + mark(ARGV[1])
  local before = redis.call('ZSCORE', KEYS[3], ARGV[1])
  if not before or tonumber(before) < deadline then
    redis.call('ZREM', KEYS[3], ARGV[1]) -- Redis accepts it, and then the ZADD, even when it is out of memory
    redis.call('ZADD', KEYS[3], string.format('%.17g', deadline), ARGV[1])
  end
end

-- Only the first waiter watches the lease. The others are woken when they become first. They ask again at the first
-- waiter's deadline, in case it is dead.
if head and head ~= ARGV[1] and (free or position) then
  return -1 - math.floor(tonumber(redis.call('ZSCORE', KEYS[3], head)) - now)
end
return refused(KEYS[1], ARGV[2])
