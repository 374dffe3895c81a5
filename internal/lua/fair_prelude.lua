local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Removes from the head of the queue those who are dead: who has not asked until his deadline, or has none. It returns
-- the head that is left, or false, and whether anybody was removed. Whoever asks is alive.
local function evict(queue, deadlines, now, asking)
  local evicted = false
  while true do
    local head = redis.call('LINDEX', queue, 0)
    if not head or head == asking then
      return head, evicted
    end
    local deadline = redis.call('ZSCORE', deadlines, head)
    if deadline and tonumber(deadline) > now then
      return head, evicted
    end
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, head)
    evicted = true
  end
end

-- Tells the head of the queue, and nobody else, that the lock is free. A user who may not publish has done his part all
-- the same; waiters then find out by polling.
local function wake(channel, head)
  redis.pcall('PUBLISH', channel .. ':' .. head, '0')
end

-- Takes off the deadlines of waiters the time that somebody ahead of them would have had.
local function hasten(deadlines, waiters, wait)
  for _, waiter in ipairs(waiters) do
    if redis.call('ZSCORE', deadlines, waiter) then
      redis.call('ZINCRBY', deadlines, -wait, waiter)
    end
  end
end
