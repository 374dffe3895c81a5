-- d05cecfb0aff3c53a698ba7146a1a4c88c823db1 read_inspect
-- Generated from ../read_inspect.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Returns whether there is a reader, how long the lease of the lock still runs, and whether one given holder reads.
--
-- KEYS[1] lock    hash: mode -> read or write, holder -> count
-- KEYS[2] hold    a string that lives as long as that holder's hold; only if there is a holder to ask about
-- ARGV[1] holder
-- returns {PTTL of the lock, 1 if it is held or else 0, 1 if that holder holds it or else 0}
-- keeps rules 2, B.10, G.1
-- for read

local mode = redis.call('HGET', KEYS[1], 'mode')
local locked = mode == 'read' or (mode == 'write' and redis.call('HLEN', KEYS[1]) > 2)
local held = KEYS[2] and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and redis.call('EXISTS', KEYS[2]) == 1
return {redis.call('PTTL', KEYS[1]), locked and 1 or 0, held and 1 or 0}
