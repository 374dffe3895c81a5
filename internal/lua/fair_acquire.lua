-- Takes the lock if nobody holds it and nobody waits ahead; or else queues, or renews its place in the queue.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of holders to be, the next one first
-- KEYS[3] deadlines  zset: holder to be -> Unix ms when he counts as dead
-- KEYS[4] abandoned  hash: number -> 1
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- ARGV[4] channel    without the holder to be, who listens on one of his own
-- ARGV[5] wait       ms that a waiter may go without asking; 0: one that does not queue
-- returns 0 when acquired; when refused, -1 less the milliseconds until asking again may help

if redis.call('HEXISTS', KEYS[4], ARGV[3]) == 1 then
  return -1
end

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  extend(KEYS[1], ARGV[2])
  return 0
end

local now, wait = milliseconds(), tonumber(ARGV[5])
local head, evicted = evict(KEYS[2], KEYS[3], now, ARGV[1])
local free = redis.call('EXISTS', KEYS[1]) == 0
if free and (not head or head == ARGV[1]) then
  local failed = create(KEYS[1], ARGV[2], ARGV[1], 1)
  if failed then
    return failed
  end
  if head then
    redis.call('LPOP', KEYS[2])
    redis.call('ZREM', KEYS[3], ARGV[1])
    hasten(KEYS[3], redis.call('LRANGE', KEYS[2], 0, -1), wait)
  end
  return 0
end

if free and evicted then
  wake(ARGV[4], head)
end
if wait > 0 then
  local position = redis.call('LPOS', KEYS[2], ARGV[1])
  if not position then
    position = redis.call('RPUSH', KEYS[2], ARGV[1]) - 1
  end
  -- Redisson's chain: each waiter may be silent for his wait after the one before him. The floor is for what those
  -- ahead will take off his deadline when they leave.
  local base
  if position > 0 then
    base = redis.call('ZSCORE', KEYS[3], redis.call('LINDEX', KEYS[2], position - 1))
  end
  base = base and tonumber(base) or now + math.max(redis.call('PTTL', KEYS[1]), 0)
  local deadline = math.max(base + wait, now + (position + 1) * wait)
  local before = redis.call('ZSCORE', KEYS[3], ARGV[1])
  if not before or tonumber(before) < deadline then
    redis.call('ZADD', KEYS[3], string.format('%.0f', deadline), ARGV[1])
  end
end

if free then
  -- The head was told. It takes the lock, or is dead and is evicted then.
  return -1 - math.ceil(tonumber(redis.call('ZSCORE', KEYS[3], head)) - now)
end
return refused(KEYS[1], ARGV[2])
