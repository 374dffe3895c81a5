-- Returns the fraction of a millisecond, one of 1023, that marks the deadlines of an rlock waiter. It is derived from the
-- waiter's name. A Redisson waiter copies the fraction of the deadline ahead. It never renews its deadline, which
-- therefore does not show that the waiter is alive.
local function mark(waiter)
  return (tonumber(string.sub(redis.sha1hex(waiter), 1, 8), 16) % 1023 + 1) / 1024
end

local function renews(waiter, deadline)
  return deadline % 1 == mark(waiter)
end

-- Subtracts the wait of a waiter that has left from the deadlines of the waiters behind it: from all, or only from those
-- of waiters that renew. It removes the deadlines and adds them again in reverse order, so that Redis finds each place
-- at once. Otherwise Redis would compare each with all deadlines before it.
local function hasten(deadlines, waiters, wait, renewing)
  for first = 1, #waiters, 1000 do
    local last = math.min(first + 999, #waiters)
    local scores, leave, come = redis.call('ZMSCORE', deadlines, unpack(waiters, first, last)), {}, {}
    for i = last, first, -1 do
      local score = tonumber(scores[i - first + 1] or nil)
      if score and (not renewing or renews(waiters[i], score)) then
        leave[#leave + 1] = waiters[i]
        come[#come + 1] = string.format('%.17g', score - wait)
        come[#come + 1] = waiters[i]
      end
    end
    if #leave > 0 then
      redis.call('ZREM', deadlines, unpack(leave))
      redis.call('ZADD', deadlines, unpack(come))
    end
  end
end

-- Removes dead waiters from the head of the queue. A waiter is dead if its deadline has passed or if it has none; the
-- waiter that runs this script is alive. Returns the remaining head, or false, and whether a waiter was removed. Each
-- place adds at least one wait to the deadline of a waiter that renews. Waiters that died together are therefore removed
-- together, and living waiters stay.
local function evict(queue, deadlines, now, wait, asking)
  local evicted = false
  while true do
    local head = redis.call('LINDEX', queue, 0)
    if not head or head == asking then
      return head, evicted
    end
    local deadline = tonumber(redis.call('ZSCORE', deadlines, head) or nil)
    if deadline and deadline > now then
      return head, evicted
    end
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, head)
    evicted = true
    if deadline and renews(head, deadline) then
      hasten(deadlines, redis.call('LRANGE', queue, 0, -1), wait, true)
    end
  end
end

-- Wakes the head of the queue and no other waiter.
local function wake(publish, channel, head)
  announce(publish, channel .. ':' .. head, '0')
end

-- Takes the lock by a function if nobody holds it and nobody waits ahead, and returns what that returns. Otherwise queues,
-- or renews the place in the queue, and returns -1 minus the ms until another attempt may succeed. patience is the ms that
-- a waiter may be silent; negative means that the caller does not queue.
local function takeTurn(lock, queue, deadlines, asking, lease, patience, publish, channel, take)
  local now, wait = milliseconds(), math.abs(patience)
  local head, evicted = evict(queue, deadlines, now, wait, asking)
  local free = redis.call('EXISTS', lock) == 0
  if free and (not head or head == asking) then
    local taken = take()
    if head and type(taken) == 'number' then
      redis.call('LPOP', queue)
      redis.call('ZREM', deadlines, asking)
      local behind = redis.call('LRANGE', queue, 0, -1)
      hasten(deadlines, behind, wait)
      if behind[1] then
        wake(publish, channel, behind[1]) -- it is first now, and must watch the lease
      end
    end
    return taken
  end
  if evicted and head and head ~= asking then
    wake(publish, channel, head)
  end
  local position
  if patience > 0 then
    position = redis.call('LPOS', queue, asking)
    if not position then
      position = redis.call('RPUSH', queue, asking) - 1
    end
    -- Deadlines form a chain, as in Redisson: each waiter may be silent for its wait after the deadline of the waiter
    -- before it. The minimum makes up for the time that waiters ahead subtract when they leave. A lease counts for at
    -- most one wait, because a waiter does not sleep longer than that.
    local base
    if position > 0 then
      base = redis.call('ZSCORE', deadlines, redis.call('LINDEX', queue, position - 1))
    end
    base = base and tonumber(base) or now + math.min(math.max(redis.call('PTTL', lock), 0), wait)
    local deadline = math.floor(math.max(base + wait, now + (position + 1) * wait)) + mark(asking)
    local before = redis.call('ZSCORE', deadlines, asking)
    if not before or tonumber(before) < deadline then
      redis.call('ZREM', deadlines, asking) -- Redis accepts it, and then the ZADD, even when it is out of memory
      redis.call('ZADD', deadlines, string.format('%.17g', deadline), asking)
    end
  end
  -- Only the first waiter watches the lease. The others are woken when they become first. They ask again at the first
  -- waiter's deadline, in case it is dead.
  if head and head ~= asking and (free or position) then
    return -1 - math.floor(tonumber(redis.call('ZSCORE', deadlines, head)) - now)
  end
  return refused(lock, lease)
end
