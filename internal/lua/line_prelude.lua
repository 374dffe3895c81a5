local function microseconds()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Returns Redisson's channel, given what it begins with: the rest follows from the name, by Redisson's rule.
local function baseOf(prefix)
  return prefix .. ':' .. (string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}')
end

-- Returns a channel of rlock that belongs to Redisson's: that of a client's waiters, given its id, or the twin. Redisson's channels of
-- the locks x and {x} are one. So those of {x} end differently, as OwnEnding in names.go has it.
local function beside(base, what)
  return base .. ':' .. what .. (string.byte(KEYS[1]) == 123 and string.find(KEYS[1], '^{[^{]*}$') and BracedEnding or '')
end

-- Returns how many listen to Redisson's channel that know of no line, and how many of rlock's processes watch it. A watcher
-- also listens to the twin of the channel. Also returns how many listen to another channel.
local function listeners(publish, base, own)
  local counts = redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', base, beside(base, TwinName), own or base)
  return math.max(counts[2] - counts[4], 0), counts[4], counts[6]
end

-- Returns whether a caught error says that the user lacks a right. Some servers have it as text. In a script, Redis gives it no code.
local function denied(why)
  local text = type(why) == 'table' and why.err or tostring(why)
  return string.find(text, "The user executing the script can't", 1, true) or string.find(text, 'ACL failure in script', 1, true)
    or string.find(text, 'NOPERM', 1, true)
end

-- Returns a caught error as the reply of a script.
local function failure(why)
  return type(why) == 'table' and why or redis.error_reply(why)
end

-- Returns the reply of a script, after a part of it that a slot on the move may break off: then, whatever the script has done is done. A
-- right that the user lacks is not hidden.
local function tried(reply, able, why)
  return not able and denied(why) and failure(why) or reply
end

-- Tells a waiter of the lock that was just created for it, and returns whether anybody hears that. Otherwise the lock is free again.
local function hand(lock, publish, channel, message)
  local able, receivers = pcall(announce, publish, channel, message)
  if able and receivers > 0 then
    return true
  end
  redis.call('DEL', lock)
  return not able and error(receivers)
end

-- Fails if the user may not remove waiters from the line. A script that removes none otherwise calls it before it gives one of
-- them the lock, or adds one: whoever stays in the line for that reason would get the lock once more, when it has left.
local function mayRemove(line)
  redis.call('ZREM', line, WaiterMark)
end

-- Returns whether a member of the line is a mark. Marks sort behind all waiters.
local function marks(member)
  local first = string.byte(member)
  return first == 33 or first == 35 -- ! or #
end

-- Removes the line if nothing but marks is left of it. That of readers who wait stays: the writer that leaves next lets them in.
local function tidy(line)
  local first = redis.call('ZRANGE', line, 0, 0)[1]
  if first and first ~= ReadersMark and marks(first) then
    redis.call('DEL', line)
  end
end

-- Removes a waiter from the line. The last waiter takes the marks with it.
local function forget(line, member)
  if redis.call('ZREM', line, member, WaiterMark .. member) > 0 then
    tidy(line)
  end
end

-- Returns whether a public release was made less than 10 ms ago: then others may take the lock, which takes them a message and
-- a command. A pump ends that after 1 ms. The process that released sends it when it has waited for about as long, and a
-- watcher when one of the others has released.
local function offered(line, now, pump)
  local at = tonumber(redis.call('ZSCORE', line, OfferMark) or nil)
  local age = at and now - (at - OfferScore)
  return age and age >= 0 and age < (pump and 1000 or 10000)
end

-- Returns whether a process was asked to watch within a second.
local function summoned(line, now)
  local at = tonumber(redis.call('ZSCORE', line, WatchMark) or nil)
  local age = at and math.floor(now / 1000) - (at - WatchScore)
  return age and age >= 0 and age < 1000
end

-- Returns whether somebody has to be asked to watch, because fewer than two do and nobody was asked within a second, or nobody
-- does and the lock is about to be in the hands of the others. Notes that somebody is.
local function unwatched(line, watchers, now, urgent)
  if watchers >= 2 or not (urgent and watchers == 0) and summoned(line, now) then
    return false
  end
  redis.call('ZADD', line, string.format('%.0f', WatchScore + math.floor(now / 1000)), WatchMark)
  return true
end

-- Returns some of the last waiters, the very last one first.
local function latest(line)
  return redis.call('ZREVRANGEBYSCORE', line, WaitersEnd, 0, 'LIMIT', 0, 10)
end

-- Returns whether a message on a channel reaches somebody here. It does not send the message, because PUBLISH and SPUBLISH do not
-- count everybody who receives it: replicas pass it on, and after a failover a waiter may still listen at the old master. Such a
-- waiter would believe that it has a lock that is then given to the next one.
local function hears(publish, channel)
  return hearers(publish, channel) > 0
end

-- Sends a message to a waiter, and returns whether somebody listens by the name of the channel. It sends it in any case: replicas and
-- some proxies pass it on to subscribers that Redis does not know.
local function deliver(publish, channel, message)
  return announce(publish, channel, message) > 0 and hears(publish, channel)
end

-- Asks one of the last waiters to watch, the first of them that is reached, but not that client. It will wait for longer than those
-- before it.
local function summon(last, publish, base, but)
  for _, member in ipairs(last) do
    local client = string.match(member, '^(.-):') or ''
    if client ~= but and deliver(publish, beside(base, client), MessageWatch) then
      return
    end
  end
end

-- Returns how often the lock was given since the last public release.
local function turns(line)
  return math.max((tonumber(redis.call('ZSCORE', line, TurnsMark) or nil) or TurnsScore) - TurnsScore, 0)
end

-- Notes, while others listen and somebody waits, that the lock was given once more, or so often.
local function count(line, others, times)
  if others > 0 and redis.call('EXISTS', line) == 1 then
    redis.call('ZADD', line, string.format('%.0f', TurnsScore + (times or turns(line) + 1)), TurnsMark)
  end
end

-- Tells the waiter that is next in the line when the lease of a new holder ends, if that is soon. It asks then, because the
-- holder may be dead. The next one itself may be dead: then the first one behind it that is reached is told. A waiter that
-- came less than 2 s ago asks within 3 s of its arrival, and need not be told of a longer lease.
local function forewarn(line, place, publish, base, lease, now)
  for next = place, tonumber(lease) <= ToldFor and place + 15 or -1 do
    local behind = redis.call('ZRANGE', line, next, next, 'WITHSCORES')
    if not behind[1] or marks(behind[1]) or tonumber(lease) == FirstTerm and now - behind[2] < 2e6 then
      return
    end
    local client, number = string.match(behind[1], '^(.-):(%d+)')
    if deliver(publish, beside(base, client or ''), string.format(MessageLease .. ' %s %s', number or 0, lease)) then
      return
    end
  end
end

-- Sends the messages of a release to whoever knows of no line.
local function tellOthers(publish, base, watchers, side)
  for _, message in ipairs(side == WriteMode and {MessageWriterLeft, MessageFree} or {MessageFree}) do
    if watchers > 0 then
      announce(publish, beside(base, TwinName), MessageOwn) -- the message that follows is no reason to pump
    end
    announce(publish, base, message)
  end
end

-- Tells those who wait when a lease ends that may end earlier than they know: the first one in the line, if that is soon, and whoever knows of
-- no line, by the message of a release. Without a line, all of them do. A kind that is silent tells nobody if nobody stands in the line.
local function tellEnd(line, publish, base, lease, silent, side)
  local stand, others, watchers = line and redis.call('EXISTS', line) == 1, 1, 0
  if silent and not stand then
    return
  elseif line then
    others, watchers = listeners(publish, base)
  end
  if others > 0 then
    tellOthers(publish, base, watchers, side)
  end
  if stand then
    forewarn(line, 0, publish, base, lease, microseconds())
  end
end

-- Gives a free lock to the first waiter of the line that is reached, and tells it. A script that calls it must have written
-- before, because Redis then refuses no later write. The lock is created before the message is sent: whatever Redis
-- refuses, it refuses then, so that no waiter learns of a lock that it does not have. A waiter that is not reached is
-- passed over, and removed if it is still not reached 3 s later. A waiter that needs a token but cannot get one here, or whose
-- term is 0, is told to ask, and must do so within 3 s. The one behind it asks then.
--
-- asker is the member of the caller, who needs no message. A client has one waiter in the line, so another one of the asker's
-- client has left, and is passed over: woken, the client would ask again and again.
--
-- Returns the member that has the lock, or the asker, who takes it by itself. Otherwise returns false, and whether a waiter was
-- told to ask.
local function grant(lock, line, token, publish, base, now, asker, others)
  local passed, size, drawn = 0, 2, nil
  local waits = asker and string.match(asker, '^(.-):[^|]*|%d') -- the asker's client, if the asker may stand in the line
  while true do
    local batch = redis.call('ZRANGE', line, passed, passed + size - 1)
    for i, member in ipairs(batch) do
      if member == asker then
        return member
      elseif marks(member) then
        if passed == 0 and not (asker and member == ReadersMark) then -- readers have their turn after the asker
          redis.call('DEL', line)
        end
        return false
      end
      local holder, client, number, term, wants = string.match(member, '^((.-):(%d+):?%a*)|(%d+)|?(t?)$')
      local asks, reached = term == '0' or wants == 't' and not token, 0
      if asks then
        reached = client ~= waits and deliver(publish, beside(base, client), MessageAsk) and 1 or 0
      elseif holder and hears(publish, beside(base, client)) then
        if wants == 't' and not drawn then
          drawn = raise(token)
        end
        local failed = create(lock, term, holder)
        local message = string.format(MessageGranted .. ' %s %.0f %s %.0f', number, now, term, wants == 't' and drawn or 0)
        reached = not failed and hand(lock, publish, beside(base, client), message) and 1 or 0
      end
      local mark = WaiterMark .. member
      if reached > 0 and not asks then
        local behind = batch[i + 1]
        if passed > 0 or behind and (behind == ReadersMark or not marks(behind)) then
          redis.call('ZREM', line, member, mark)
        elseif i == 1 then
          redis.call('DEL', line) -- it was the last one
          return member
        else
          forget(line, member)
        end
        forewarn(line, passed, publish, base, term, now)
        count(line, others or listeners(publish, base))
        return member
      end
      local at, ms = tonumber(redis.call('ZSCORE', line, mark) or nil), math.floor(now / 1000)
      local age = at and ms - (at - AwaitedScore)
      if age and age >= ToldFor then
        redis.call('ZREM', line, member, mark)
      else
        if not age or age < 0 then
          redis.call('ZADD', line, string.format('%.0f', AwaitedScore + ms), mark)
          if asks then
            forewarn(line, passed + 1, publish, base, ToldFor, now)
          end
        end
        if reached > 0 then
          return false, true
        end
        passed = passed + 1
      end
    end
    if #batch < size then
      return false
    end
    size = 100
  end
end

-- Puts a waiter at the end of the line. One that stands there already is alive, and keeps its place. Redis does this even when it
-- is out of memory, because ZREM needs none.
-- Returns whether it is new.
local function enlist(line, now, member)
  redis.call('ZREM', line, WaiterMark .. member)
  local added = redis.call('ZADD', line, 'NX', string.format('%.0f', now), member)
  redis.call('PEXPIRE', line, '300000')
  return added == 1
end

-- Returns how many waiters stand before a place, without those at the front whom nobody reaches, as far as it looks: they do not
-- watch the lease of the holder.
local function ahead(line, place, publish, base)
  for dead = 0, math.min(place, 64) - 1 do
    local client = string.match(redis.call('ZRANGE', line, dead, dead)[1], '^(.-):')
    if client and hears(publish, beside(base, client)) then
      return place - dead
    end
  end
  return math.max(place - 64, 0)
end

-- Puts a waiter that was refused into the line, and sees to it that somebody watches. Returns the reply to its acquire, which
-- begins with the hint. more is added to what the waiter is told.
local function stand(line, member, publish, base, now, hint, more)
  local new = enlist(line, now, member)
  local place, tell = redis.call('ZRANK', line, member), more or 0
  if place > 3 and not new then -- only the first four watch the lease
    place = ahead(line, place, publish, base)
  end
  local client = string.match(member, '^(.-):')
  local _, watchers, hearers = listeners(publish, base, beside(base, client))
  tell = tell + (hearers == 0 and BitUnheard or BitHeard)
  if unwatched(line, watchers, now) then
    tell = tell + BitWatch
    summon(latest(line), publish, base, client) -- the asker may be the one that watches
  end
  return {hint, now, tell, place}
end

-- Puts the next holder of this process, if there is one, at the end of the line.
local function append(line, now, following)
  if following ~= '' then
    enlist(line, now, following)
  end
end

-- Notes that readers wait for a writer, and prefer writers. Redis does this even when it is out of memory, as with a waiter. A failure
-- is ignored: readers then have their turn as if they preferred nobody.
local function noteReaders(line)
  redis.pcall('ZREM', line, ReadersMark)
  redis.pcall('ZADD', line, string.format('%.0f', ReadersScore + milliseconds()), ReadersMark)
  redis.pcall('PEXPIRE', line, '300000')
end

-- Returns whether a reader has to wait for a writer of the line: for one that came before it and that a message reaches, unless a
-- writer has left the lock since the reader came. A writer that cannot be reached may be dead, and is passed over, as by a release. One
-- that came just now may be about to subscribe.
local function behindWriter(line, now, came, publish, base)
  local left = (tonumber(redis.call('ZSCORE', line, OfferMark) or nil) or OfferScore) - OfferScore
  if came <= left and left <= now then
    return false
  end
  for place = 0, 63 do
    local writer = redis.call('ZRANGE', line, place, place, 'WITHSCORES')
    if not writer[1] or marks(writer[1]) or came < tonumber(writer[2]) then
      return false
    end
    if now - writer[2] < 100000 or hears(publish, beside(base, string.match(writer[1], '^(.-):') or '')) then
      return true
    end
  end
  return false
end

-- Returns the hint for a reader that has to wait for a writer of the line, or else nil. If the lock is free, and not offered to readers
-- just now, it goes to the first writer that is reached: then whoever had it is dead, or knew of no line.
local function yield(lock, line, free, waited, publish, base)
  local now = microseconds()
  if not behindWriter(line, now, now - waited, publish, base) then
    return
  end
  if not free then
    local ttl = redis.call('PTTL', lock) -- negative if somebody took its lease away: the writer gives it one when it asks
    return -1 - (ttl < 0 and FirstTerm or math.min(FirstTerm, ttl)) -- as the first of the line does: the writer may be stopped
  end
  if offered(line, now) then
    return -1 - 10
  end
  mayRemove(line)
  redis.call('PEXPIRE', line, '300000')
  local given, asked = grant(lock, line, nil, publish, base, now)
  return (given or asked) and -1 - ToldFor or nil
end

-- Wakes the readers who wait for a writer of the line, once one has left it. Each of them asks whether it still has to wait.
local function callReaders(lock, line, publish, base)
  if redis.pcall('HGET', lock, ModeField) ~= WriteMode and redis.pcall('ZREM', line, ReadersMark) == 1 then
    announceFree(publish, base, WriteMode)
  end
end

-- Offers a lock to the others: to readers, who wait for the end of a writer, and to whoever else knows of no line.
local function offer(line, publish, base, now, watchers, side)
  redis.call('ZADD', line, string.format('%.0f', OfferScore + now), OfferMark, string.format('%.0f', TurnsScore), TurnsMark)
  tellOthers(publish, base, watchers, side)
end

-- Passes on a lock that is free: to the others, to the first waiter of the line, or to the next holder of this process. side is
-- that of a read-write lock which was left. Readers leave the lock to the line. They hold it together after a writer offered it
-- to them, so readers and writers take turns. Returns the reply of a release.
local function pass(lock, line, token, publish, base, now, side, freed, following, lease)
  local others, watchers = listeners(publish, base)
  if not freed and offered(line, now) then
    return {0, now, 3, 0, 0, others} -- it may be a repetition: the reply to the public release was lost
  end
  local what, drawn, waiting = 0, 0, following == '' and 0 or 1
  if others > 0 and freed and side ~= ReadMode then
    waiting = waiting + redis.call('ZCOUNT', line, 0, WaitersEnd)
  end
  local times = waiting > 0 and others > 0 and turns(line) + 1 or 1
  if waiting > 0 and others > 0
    and (side == WriteMode and redis.call('ZREM', line, ReadersMark) == 1 or times * others >= waiting) then
    what = 3
    append(line, now, following)
    offer(line, publish, base, now, watchers, side)
  else
    local given, asked = grant(lock, line, token, publish, base, now, nil, others)
    if given or asked then
      what = 1
      append(line, now, given == following and '' or following) -- it may have asked by itself before a late release
      if given and following ~= '' then
        count(line, others, times) -- once more, because the line may have been gone in between
      end
    elseif following ~= '' then
      local able = true
      if token and string.sub(following, -2) == TokenSuffix then
        able, drawn = pcall(raise, token)
      end
      if able and not create(lock, lease, string.match(following, '^[^|]*')) then
        what = 2
        forget(line, following)
        count(line, others)
      end
    end
    if what == 0 and freed then
      announceFree(publish, base, side)
    end
  end
  local watch = 0
  if others > 0 and watchers < 2 then
    local last = latest(line)
    if last[1] and unwatched(line, watchers, now, what == 3) then
      if following ~= '' then
        watch = 1
      else
        summon(last, publish, base)
      end
    end
  end
  return {freed and 1 or 0, now, what, what == 2 and drawn or 0, watch, others}
end
