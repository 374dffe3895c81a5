-- Gives the lock from its holder to that of a ticket, or from that to whoever presents the ticket, and tells the first waiter that is
-- reached when the lease is over. A repeated call returns the same.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of waiters, the first one first
-- KEYS[3] deadlines  zset: waiter -> Unix ms from which Redisson counts it as dead
-- KEYS[4] seats      hash: waiter -> number|ms of the lease that a script may give to it, and |t if it needs a token
-- KEYS[5] token      the latest token, or else the tombstones
-- KEYS[6] tombstones hash: number -> Unix ms; only if there is a token
-- ARGV[1] next       the holder that gets the lock
-- ARGV[2] lease      ms, of the next holder
-- ARGV[3] number     of the next holder
-- ARGV[4] channel    prefix; each waiter listens on a channel of its own
-- ARGV[5] publish    PUBLISH; SPUBLISH if the cluster's pub/sub is sharded, or NODE if it is not
-- ARGV[6] last       the holder that gives the lock up
-- ARGV[7] draws      1 if the next holder is no ticket, and draws a token
-- returns the token or 0 when given; -1 when the last holder does not hold it; -2 when the next holder has a tombstone
-- keeps rules A.1, A.6, M.3, Q.7, Q.8, Q.10, S.17
-- for fair
-- with tokens for fenced fair

local reply, first = handOff(KEYS[1], KEYS[6] and ARGV[7] == '1' and KEYS[5], KEYS[6] or KEYS[5], ARGV[6], ARGV[1], ARGV[3], ARGV[2])
if not first or redis.pcall('EXISTS', KEYS[2]) ~= 1 then
  return reply
end

-- functions
return tried(reply, pcall(alertFirst, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[4], ARGV[5], ARGV[2]))
