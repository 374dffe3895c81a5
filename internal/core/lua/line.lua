-- What the scripts of all kinds that have a line share. KEYS[2] is the line, the last argument of a script says how to publish: s for the
-- sharded channels of a cluster, n for channels of a cluster that are not, whose listeners nobody can count, and nothing for one server.
--
-- The line is a zset of who waits. A member is <client>:<number>|<lease in ms>|<flags>, its score the moment in us at which it came. Who stands
-- in the line has subscribed to its own channel before, <line>:<client>, where it is told
--   6 <number> <us> <ms> <token> <flags>   it is yours, from then on, for so long
--   9 <number> <ms>                        you are the first of the line: ask in so many ms, if you have heard nothing by then
local how = ARGV[#ARGV]

local function own(field)
  return KEYS[2] .. ':' .. string.match(field, '^[^:]+')
end

local function publish(channel, message)
  redis.call(how == 's' and 'SPUBLISH' or 'PUBLISH', channel, message)
end

local function listeners(...)
  return redis.call('PUBSUB', how == 's' and 'SHARDNUMSUB' or 'NUMSUB', ...)
end

-- How many connections hear the own channel of a waiter.
local function hear(field)
  return listeners(own(field))[2]
end

-- How many listen to a public channel who are not rlock's: each client of rlock that does listens to its twin, too.
local function others(base)
  if base == '' then
    return 0
  end
  if how == 'n' then
    return 1
  end
  local n = listeners(base, base .. ':rlock')
  return n[2] - n[4]
end

-- Whether it is the turn of the n others, by chance: they have as many turns as their part of all who wait.
local function theirTurn(n, now)
  return (now % 1000) * (n + redis.call('ZCARD', KEYS[2])) < n * 1000
end

-- Tells the first of the line that it is first, and that it may ask in ttl ms. One that came less than 2 s ago asks within 3 s of its arrival
-- anyway, and is told only if others listen, because it has to heed their releases then.
local function warn(now, ttl, anyway)
  local head = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  if head[1] and (anyway or now - head[2] > 2e6) then
    publish(own(head[1]), string.format('9 %s %d', string.match(head[1], ':(%d+)'), ttl))
  end
end
