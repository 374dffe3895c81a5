-- Takes the lock if nobody holds it and nobody waits ahead; or else queues, or renews its place in the queue.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of holders to be, the next one first
-- KEYS[3] deadlines  zset: holder to be -> Unix ms when he counts as dead
-- KEYS[4] abandoned  hash: number -> Unix ms
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- ARGV[4] channel    without the holder to be, who listens on one of his own
-- ARGV[5] publish    PUBLISH, SPUBLISH where the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] wait       ms that a waiter may go without asking; negative: this one does not queue
-- returns 0 when acquired; when refused, -1 less the milliseconds until asking again may help

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
      wake(ARGV[5], ARGV[4], behind[1]) -- he is first now, and has to watch the lease
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
  -- Redisson's chain: each waiter may be silent for his wait after the one before him. The floor is for what those
  -- ahead will take off his deadline when they leave. Of a lease that is longer than a wait no more counts: a waiter
  -- does not sleep that long.
  local base
  if position > 0 then
    base = redis.call('ZSCORE', KEYS[3], redis.call('LINDEX', KEYS[2], position - 1))
  end
  base = base and tonumber(base) or now + math.min(math.max(redis.call('PTTL', KEYS[1]), 0), wait)
  local deadline = math.floor(math.max(base + wait, now + (position + 1) * wait)) + mark(ARGV[1])
  local before = redis.call('ZSCORE', KEYS[3], ARGV[1])
  if not before or tonumber(before) < deadline then
    redis.call('ZREM', KEYS[3], ARGV[1]) -- is accepted, and the ZADD after it, when Redis is out of memory
    redis.call('ZADD', KEYS[3], string.format('%.17g', deadline), ARGV[1])
  end
end

-- Only who is first watches the lease. Who is not will be told when he is; should the first one be dead, that shows then.
if head and head ~= ARGV[1] and (free or position) then
  return -1 - math.floor(tonumber(redis.call('ZSCORE', KEYS[3], head)) - now)
end
return refused(KEYS[1], ARGV[2])
