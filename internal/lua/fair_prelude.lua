-- The fraction of a millisecond, one of 1023, by which the deadlines of one of rlock's waiters are known: it is made of his
-- name. Redisson makes a deadline of the one ahead, fraction and all; but its waiters never renew theirs, which say nothing
-- of who is alive.
local function mark(waiter)
  return (tonumber(string.sub(redis.sha1hex(waiter), 1, 8), 16) % 1023 + 1) / 1024
end

local function renews(waiter, deadline)
  return deadline % 1 == mark(waiter)
end

-- Takes off the deadlines of waiters the time that somebody ahead of them would have had; of all, or of those who renew.
-- They are removed and come back last one first: so Redis finds each place at once, where it else compares with all
-- that are before it.
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

-- Removes from the head of the queue those who are dead: who has not asked until his deadline, or has none. It returns
-- the head that is left, or false, and whether anybody was removed. Whoever asks is alive. Waiters who renew have at
-- least a wait for each place; so those who died together are removed together, and the living are not.
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

-- Tells the head of the queue, and nobody else, to ask again.
local function wake(publish, channel, head)
  announce(publish, channel .. ':' .. head, '0')
end
