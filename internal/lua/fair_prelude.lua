-- Returns the fraction of a millisecond, an odd number of 2048ths, that marks the deadline of an rlock waiter. It shows the
-- waiter's state: 0 when it has asked, 1 when a message did not reach it since, and 2 when one did but it has not come. The
-- fraction is derived from the waiter's name, because a Redisson waiter copies that of the deadline ahead. Versions of rlock
-- before the rules of decisions.md R used other fractions. Their waiters count as Redisson's, which they resemble: one that
-- acquires or leaves takes its wait off all deadlines behind it.
local function mark(waiter, state)
  return (tonumber(string.sub(redis.sha1hex(waiter), 1, 8), 16) % 341 * 2 + 682 * state + 1) / 2048
end

-- Returns the state of an rlock waiter, or nil for one of Redisson's.
local function stateOf(waiter, deadline)
  local state = (deadline % 1 - mark(waiter, 0)) * 2048 / 682
  if state == 0 or state == 1 or state == 2 then
    return state
  end
end

-- Sets the deadline and the state of an rlock waiter. Redis accepts the ZREM, and then the ZADD, even when it is out of memory.
local function date(deadlines, waiter, deadline, state)
  redis.call('ZREM', deadlines, waiter)
  redis.call('ZADD', deadlines, string.format('%.17g', math.floor(deadline) + mark(waiter, state)), waiter)
end

local function remove(queue, deadlines, waiter)
  redis.call('LREM', queue, 1, waiter)
  redis.call('ZREM', deadlines, waiter)
end

-- Notifies one waiter. Returns how many listeners received the message. Returns nil if Redis does not say it, because the user
-- may not publish, because there may be listeners at other nodes of a cluster ('NODE'), or because nobody knows yet whether
-- the waiter listens to a sharded channel ('BOTH').
local function reach(publish, channel, waiter)
  if publish == 'NODE' or publish == 'BOTH' then
    announce(publish == 'NODE' and 'PUBLISH' or publish, channel .. ':' .. waiter, '0')
    return nil
  end
  local receivers = redis.pcall(publish, channel .. ':' .. waiter, '0')
  return type(receivers) == 'number' and receivers or nil
end

-- While the lock is free, notifies the first waiter that can take it, of those ahead of the asking one, or of all. An rlock
-- waiter counts as alive if the message reaches it. One that is not reached is passed over after 50 ms, in which it may
-- subscribe, and is removed if it is still not reached after 3 s. So is one that was reached by another attempt but does not
-- come for 3 s. In both cases its deadline says so to Redisson, too. Redisson's waiters are judged by their deadlines. So are
-- all if Redis does not count the receivers.
--
-- Returns the Unix ms until which the asking one must leave the lock to others, or nil; whether the asking one was found; and
-- how many waiters were passed over.
local function wakeFirst(queue, deadlines, now, publish, channel, asking)
  local passed, leave, size = 0, now, 1
  while true do
    local waiters = redis.call('LRANGE', queue, passed, passed + size - 1)
    for _, waiter in ipairs(waiters) do
      if waiter == asking then
        return leave > now and leave or nil, true, passed
      end
      local deadline = tonumber(redis.call('ZSCORE', deadlines, waiter) or nil)
      local state = deadline and stateOf(waiter, deadline)
      local over = not deadline or deadline <= now
      if over and state ~= 0 and state ~= 1 then
        remove(queue, deadlines, waiter)
      elseif state == 1 and not over and deadline < now + 3001 then
        passed, leave = passed + 1, math.max(leave, math.floor(deadline) - 2950)
      else
        local receivers = reach(publish, channel, waiter)
        if receivers == 0 and state then
          if state == 1 and over then
            remove(queue, deadlines, waiter)
          else
            date(deadlines, waiter, now + 3000, 1)
            passed, leave = passed + 1, math.max(leave, now + 50)
          end
        elseif receivers or not over then
          if receivers and asking and (state == 0 or state == 1) then
            deadline = now + 3000
            date(deadlines, waiter, deadline, 2)
          end
          return deadline, false, passed
        else
          remove(queue, deadlines, waiter)
        end
      end
    end
    if #waiters < size then
      return leave > now and leave or nil, false, passed
    end
    size = 64
  end
end

-- While the lock is held, removes waiters from the head of the queue that are dead by their deadlines: Redisson's, and all if
-- Redis does not count receivers. Notifies the head that is left, because the first waiter watches the lease. The asking
-- waiter is alive. Returns the head, or false, and when to ask whether it is dead: its deadline, or nil.
local function evict(queue, deadlines, now, publish, channel, asking)
  local evicted = false
  while true do
    local head = redis.call('LINDEX', queue, 0)
    if not head or head == asking then
      return head
    end
    local deadline = tonumber(redis.call('ZSCORE', deadlines, head) or nil)
    local judged = not deadline or publish == 'NODE' or publish == 'BOTH' or not stateOf(head, deadline)
    if not judged or (deadline and deadline > now) then
      if evicted then
        reach(publish, channel, head)
      end
      return head, judged and deadline
    end
    remove(queue, deadlines, head)
    evicted = true
  end
end

-- Gives the head of the queue time, if it is one of Redisson's: it became first because an rlock waiter acquired the lock or
-- left. Redisson never renews a deadline, so it may be over although the waiter is alive. ends is when the lock is free.
local function favor(queue, deadlines, ends)
  local head = redis.call('LINDEX', queue, 0)
  local deadline = head and tonumber(redis.call('ZSCORE', deadlines, head) or nil)
  if deadline and deadline < ends + 300000 and not stateOf(head, deadline) then
    redis.call('ZADD', deadlines, string.format('%.0f', ends + 300000), head)
  end
  return head
end

-- Queues a waiter, or renews its deadline, which is for Redisson's eyes: Redisson removes a head whose deadline is over, and
-- takes its own wait, mostly 5 min, off all others when it acquires. So the deadline is that of the nearest rlock waiter ahead,
-- or one wait from now if that is later, plus 5 min for each of Redisson's in between, and one wait after the last of those.
--
-- The place in the queue is not looked up if the deadline shows that none of Redisson's was ahead at the last attempt: it is
-- then one wait after that attempt. Beyond 256 places the deadline only moves to a later time.
local function enqueue(queue, deadlines, asking, head, now, wait)
  local length, own = redis.call('LLEN', queue), tonumber(redis.call('ZSCORE', deadlines, asking) or nil)
  local queued, place = own, nil
  if length ~= redis.call('ZCARD', deadlines) then -- somebody changed one of the keys by hand
    place = redis.call('LPOS', queue, asking)
    queued = place
  end
  local deadline = now + wait
  if not queued then
    redis.call('RPUSH', queue, asking)
    place = length
  elseif head == asking then
    place = 0
  elseif own and own > now + wait / 3 and own <= deadline + 1 then
    place = 0 -- as good as first
  elseif not place then
    place = redis.call('LPOS', queue, asking, 'MAXLEN', 256)
    deadline = place and deadline or math.max(deadline, own)
  end
  local others, after = 0, 0
  for i = (place or 0) - 1, math.max((place or 0) - 64, 0), -1 do
    local waiter = redis.call('LINDEX', queue, i)
    local ahead = tonumber(redis.call('ZSCORE', deadlines, waiter) or nil)
    if ahead and stateOf(waiter, ahead) then
      deadline = math.max(deadline, ahead)
      break
    end
    others = others + 1
    if others == 1 and ahead then
      after = ahead + wait
    end
  end
  date(deadlines, asking, math.max(deadline + others * 300000, after), 0)
end

-- Takes the lock by a function if nobody holds it and nobody waits ahead, and returns what that returns. Otherwise queues,
-- or renews the deadline, and returns -1 minus the ms until another attempt may succeed. patience is the ms that a waiter may
-- be silent; negative means that the caller does not queue.
local function takeTurn(lock, queue, deadlines, asking, lease, patience, publish, channel, take)
  if redis.call('EXISTS', lock, queue) == 0 then
    return take()
  end
  local now, head, due = milliseconds(), nil, nil
  if redis.call('EXISTS', lock) == 0 then
    local leave, found, passed = wakeFirst(queue, deadlines, now, publish, channel, asking)
    if not leave then
      local taken = take()
      if found and type(taken) == 'number' then
        remove(queue, deadlines, asking)
        head = passed == 0 and favor(queue, deadlines, now + lease)
        if head then
          reach(publish, channel, head) -- it is first now, and must watch the lease
        end
      end
      return taken
    end
    due = leave
  else
    head, due = evict(queue, deadlines, now, publish, channel, asking)
  end
  if patience > 0 then
    enqueue(queue, deadlines, asking, head, now, patience)
  end
  if head == nil then
    return -1 - math.ceil(due - now)
  elseif not head or head == asking or patience < 0 then
    return refused(lock, lease)
  end
  -- Only the first waiter watches the lease. The others are woken when they become first, and ask in case it is dead.
  return due and -1 - math.floor(due - now) or -1 - patience
end
