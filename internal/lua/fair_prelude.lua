-- Returns the fraction of a millisecond, an odd number of 2048ths, that marks the deadline of an rlock waiter. It shows the
-- waiter's state, see names.go. The
-- fraction is derived from the waiter's name, because a Redisson waiter copies that of the deadline ahead. Versions of rlock
-- before the rules of docs/rules.md R used other fractions. Their waiters count as Redisson's, which they resemble: one that
-- acquires or leaves takes its wait off all deadlines behind it.
local function fraction(waiter, state)
  return (tonumber(string.sub(redis.sha1hex(waiter), 1, 8), 16) % NameParts * 2 + StateParts * state + 1) / DeadlineParts
end

-- Returns whether a waiter has a seat, by its name. Redisson's names end with the number of a thread.
local function ours(waiter)
  return string.find(waiter, SeatInfix, 1, true)
end

-- Returns whether a waiter waits for another lock. The locks x and {x} have one queue, by Redisson's rule. The seats of {x} end
-- differently. The scripts of x neither grant, notify nor remove them, and nobody stands behind them. Redisson's waiters do not tell.
local function foreign(waiter)
  return ours(waiter) and (string.byte(waiter, -1) == 125) ~= (string.find(KEYS[1], '^{[^{]*}$') ~= nil) -- 125 is }
end

-- Returns the first waiter for this lock, from a place on, and its own place; or false.
local function first(queue, from)
  local place, size = from or 0, 1
  while true do
    local waiters = redis.call('LRANGE', queue, place, place + size - 1)
    for i, waiter in ipairs(waiters) do
      if not foreign(waiter) then
        return waiter, place + i - 1
      end
    end
    if #waiters < size then
      return false
    end
    place, size = place + size, 64
  end
end

-- Returns the state of an rlock waiter, or nil for one of Redisson's.
local function stateOf(waiter, deadline)
  if not ours(waiter) then
    return nil -- the fraction that it has copied may be one of its own by chance
  end
  local state = (deadline % 1 - fraction(waiter, StateAsked)) * DeadlineParts / StateParts
  if state == StateAsked or state == StateUnreached or state == StateTold then
    return state
  end
end

-- Sets the deadline and the state of an rlock waiter. Redis accepts the ZREM, and then the ZADD, even when it is out of memory.
local function date(deadlines, waiter, deadline, state)
  redis.call('ZREM', deadlines, waiter)
  redis.call('ZADD', deadlines, string.format('%.17g', math.floor(deadline) + fraction(waiter, state)), waiter)
end

-- Returns what the functions below share.
local function fairLock(lock, queue, deadlines, seats, token, channel, publish)
  local micros = microseconds()
  return {
    lock = lock, queue = queue, deadlines = deadlines, seats = seats, token = token, channel = channel, publish = publish,
    micros = micros, now = math.floor(micros / 1000),
  }
end

-- Returns the number of the rlock waiter that has a seat in the queue, the ms of the lease that a script may give to it, and t
-- if it needs a token. Returns nil for a waiter without a seat: one of Redisson, or of a version of rlock that had none.
local function sitter(seats, waiter)
  return string.match(redis.call('HGET', seats, waiter) or '', '^(%d+)|(%d+)|?(t?)$')
end

-- Returns whether this script may give the lock to a waiter with such an entry. Otherwise the waiter is woken, and asks.
local function grantable(q, term, wants)
  return term and term ~= '0' and (wants == '' or q.token) and q.publish ~= 'NODE'
end

local function remove(q, waiter)
  redis.call('LREM', q.queue, 1, waiter)
  redis.call('ZREM', q.deadlines, waiter)
  redis.call('HDEL', q.seats, waiter)
end

-- Notifies one waiter, also if nobody seems to listen: replicas and some proxies pass the message on to subscribers that Redis does
-- not know. Returns whether somebody listens, by the name of the channel: 1 or 0. Returns nil if Redis does not say it, because there may be listeners at
-- other nodes of a cluster ('NODE').
local function reach(q, waiter)
  if q.publish == 'NODE' then
    announce('PUBLISH', q.channel .. ':' .. waiter, MessageFree)
    return nil
  end
  return deliver(q.publish, q.channel .. ':' .. waiter, MessageFree) and 1 or 0
end

-- Tells the waiter that is first from now on until when somebody else has the lock, because the first waiter watches the lease.
-- It need not know if a release gave the lock to its own client, whose end is its own, unless the lease is short. The first one
-- may be dead: then the first one behind it that is reached is told. It is at that place, or behind it.
local function alert(q, place, client, lease)
  for _ = 1, 16 do
    local waiter, at = first(q.queue, place)
    if not waiter or tonumber(lease) >= FirstTerm and ours(waiter) and string.match(waiter, '^(.*):') == client then
      return
    end
    place = at + 1
    local number, term, wants = sitter(q.seats, waiter)
    local receivers
    if grantable(q, term, wants) then
      receivers = deliver(q.publish, q.channel .. ':' .. waiter, string.format(MessageLease .. ' %s %s', number, lease)) and 1 or 0
    else
      receivers = reach(q, waiter)
    end
    if receivers ~= 0 then
      return
    end
  end
end

-- Tells the first waiter when a lease ends that may end earlier than it knows. It is told also if the last holder was of its own client, whose
-- end it does not see any more. One that needs a token is told as the others are: nobody draws one for that.
local function alertFirst(lock, queue, deadlines, seats, channel, publish, lease)
  alert(fairLock(lock, queue, deadlines, seats, true, channel, publish), 0, nil, lease)
end

-- Gives the head of the queue time, if it is one of Redisson's: it became first because an rlock waiter acquired the lock or
-- left. Redisson never renews a deadline, so it may be over although the waiter is alive. ends is when the lock is free. left is the
-- place of who left: somebody before it has been the head all the time.
local function favor(q, ends, left)
  local head, place = first(q.queue)
  local deadline = head and place >= left and not ours(head) and tonumber(redis.call('ZSCORE', q.deadlines, head) or nil)
  if deadline and deadline < ends + 300000 and not stateOf(head, deadline) then
    redis.call('ZADD', q.deadlines, string.format('%.0f', ends + 300000), head)
  end
  return head
end

-- Takes out of the queue a waiter that has got the lock. passed is how many stand before it.
local function depart(q, waiter, passed, client, lease)
  remove(q, waiter)
  favor(q, q.now + lease, passed)
  alert(q, passed, client, lease)
end

-- Gives a free lock to a waiter, and tells it, unless it is of the client here, which learns it from the reply. The lock is created
-- before the message is sent: whatever Redis refuses, it refuses then. Returns what the reply says, or nil if the waiter is not
-- reached.
local function give(q, waiter, passed, here, number, term, drawn)
  local client = string.match(waiter, '^(.*):')
  if client ~= here and not hears(q.publish, q.channel .. ':' .. waiter) then
    return nil
  end
  local failed = create(q.lock, term, client .. ':' .. number)
  if failed then
    return nil
  end
  if client ~= here then
    local message = string.format(MessageGranted .. ' %s %.0f %s %.0f', number, q.micros, term, drawn)
    if not hand(q.lock, q.publish, q.channel .. ':' .. waiter, message) then
      return nil
    end
  end
  depart(q, waiter, passed, client, tonumber(term))
  return {tonumber(number), client == here, tonumber(term), drawn}
end

-- While the lock is free, gives it to the first waiter that can have it, of those ahead of the asking one, or of all; or wakes
-- that waiter, if it must take the lock itself.
--
-- An rlock waiter counts as alive if a message reaches it. One that is not reached is passed over, and removed if it is still
-- not reached after 3 s. The asking one leaves it 50 ms, in which it may subscribe. A waiter that was woken by another attempt
-- but does not come for 3 s is removed, too. In all these cases its deadline says so to Redisson. Redisson's waiters are judged
-- by their deadlines. So are all if Redis does not count the receivers.
--
-- Returns who has the lock, or nil, see give; the Unix ms until which the asking one must leave the lock to others, or nil;
-- whether the asking one was found; and how many waiters were passed over.
local function serve(q, asking, here)
  local now, passed, leave, size = q.now, 0, q.now, 1
  while true do
    local waiters = redis.call('LRANGE', q.queue, passed, passed + size - 1)
    for _, waiter in ipairs(waiters) do
      if waiter == asking then
        return nil, leave > now and leave or nil, true, passed
      end
      local other = foreign(waiter)
      local number, term, wants
      if not other then
        number, term, wants = sitter(q.seats, waiter)
      end
      local given, drawn = grantable(q, term, wants), 0
      if given and wants == 't' then
        given, drawn = pcall(raise, q.token)
      end
      local holder = given and give(q, waiter, passed, here, number, term, drawn)
      if holder then
        return holder, nil, false, passed
      end
      local deadline = not other and tonumber(redis.call('ZSCORE', q.deadlines, waiter) or nil)
      local state = deadline and stateOf(waiter, deadline)
      local over = not deadline or deadline <= now
      if other then
        passed = passed + 1
      elseif state == StateUnreached and not over and deadline < now + 3001 then
        passed, leave = passed + 1, math.max(leave, math.floor(deadline) - 2950)
      elseif given then
        if state == StateUnreached and over then
          remove(q, waiter)
        else
          date(q.deadlines, waiter, now + ToldFor, StateUnreached)
          passed, leave = passed + 1, math.max(leave, now + 50)
        end
      elseif over and state ~= StateAsked and state ~= StateUnreached then
        remove(q, waiter)
      else
        local receivers = reach(q, waiter)
        if receivers == 0 and state then
          if state == StateUnreached and over then
            remove(q, waiter)
          else
            date(q.deadlines, waiter, now + ToldFor, StateUnreached)
            passed, leave = passed + 1, math.max(leave, now + 50)
          end
        elseif receivers or not over then
          if receivers and asking and (state == StateAsked or state == StateUnreached) then
            deadline = now + ToldFor
            date(q.deadlines, waiter, deadline, StateTold)
          end
          return nil, deadline, false, passed
        else
          remove(q, waiter)
        end
      end
    end
    if #waiters < size then
      return nil, leave > now and leave or nil, false, passed
    end
    size = 64
  end
end

-- While the lock is held, removes waiters from the head of the queue that are dead by their deadlines: Redisson's, and all if
-- Redis does not count receivers. Notifies the head that is left, because the first waiter watches the lease. The asking
-- waiter is alive. Returns the head, or false, and when to ask whether it is dead: its deadline, or nil.
local function evict(q, asking)
  local evicted = false
  while true do
    local head = first(q.queue)
    if not head or head == asking or not evicted and ours(head) and q.publish ~= 'NODE' then
      return head
    end
    local deadline = tonumber(redis.call('ZSCORE', q.deadlines, head) or nil)
    local judged = not deadline or q.publish == 'NODE' or not stateOf(head, deadline)
    if not judged or (deadline and deadline > q.now) then
      if evicted then
        reach(q, head)
      end
      return head, judged and deadline
    end
    remove(q, head)
    evicted = true
  end
end

-- Returns whether nobody reaches the waiters before the asking one, as far as it looks. All of them have seats.
local function deserted(q, asking)
  for place = 0, 63 do
    local waiter = redis.call('LINDEX', q.queue, place)
    if not waiter or waiter == asking then
      return true
    elseif not ours(waiter) or not foreign(waiter) and hears(q.publish, q.channel .. ':' .. waiter) then
      return false
    end
  end
  return false
end

-- Forgets who has a seat that is not in the queue. Redisson knows of no seats.
local function sweepSeats(q)
  local all = redis.call('HGETALL', q.seats)
  for i = 1, #all, 2 do
    if not redis.call('ZSCORE', q.deadlines, all[i]) then
      redis.call('HDEL', q.seats, all[i])
    end
  end
end

-- Queues a waiter, or renews its deadline, and returns whether it was in the queue. The deadline is for Redisson's eyes: Redisson
-- removes a head whose deadline is over, and takes its own wait, mostly 5 min, off all others when it acquires. So the deadline
-- is that of the nearest rlock waiter ahead, or one wait from now if that is later, plus 5 min for each of Redisson's in
-- between, and one wait after the last of those.
--
-- The place in the queue is not looked up if the deadline shows that none of Redisson's was ahead at the last attempt: it is
-- then one wait after that attempt. Beyond 256 places the deadline only moves to a later time.
local function enqueue(q, asking, head, wait, number, rest)
  local length, own = redis.call('LLEN', q.queue), tonumber(redis.call('ZSCORE', q.deadlines, asking) or nil)
  local queued, place = own, nil
  if length ~= redis.call('ZCARD', q.deadlines) then -- somebody changed one of the keys by hand
    place = redis.call('LPOS', q.queue, asking)
    queued = place
  end
  local deadline = q.now + wait
  if not queued then
    redis.call('RPUSH', q.queue, asking)
    place = length
  elseif head == asking then
    place = 0
  elseif own and own > q.now + wait / 3 and own <= deadline + 1 then
    place = 0 -- as good as first
  elseif not place then
    place = redis.call('LPOS', q.queue, asking, 'MAXLEN', 256)
    deadline = place and deadline or math.max(deadline, own)
  end
  local others, after = 0, 0
  for i = (place or 0) - 1, math.max((place or 0) - 64, 0), -1 do
    local waiter = redis.call('LINDEX', q.queue, i)
    local ahead = tonumber(redis.call('ZSCORE', q.deadlines, waiter) or nil)
    if ahead and ours(waiter) then
      deadline = math.max(deadline, math.floor(ahead))
      break
    end
    others = others + 1
    if others == 1 and ahead then
      after = ahead + wait
    end
  end
  date(q.deadlines, asking, math.max(deadline + others * 300000, after), StateAsked)
  redis.call('HSET', q.seats, asking, number .. rest)
  redis.call('PEXPIRE', q.seats, math.max(wait, 300000))
  if not queued and tonumber(number) % 64 == 0 and redis.call('HLEN', q.seats) > length + 128 then
    sweepSeats(q)
  end
  return queued
end
