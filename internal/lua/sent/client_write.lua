-- 20d1955a48f07b70fc1d944031bed055a608c37d client_write
-- Generated from ../client_write.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Writes what a client says about itself, for some time.
--
-- KEYS[1] client    hash: what -> value
-- ARGV[1] lifetime  ms
-- The arguments that follow are names and values, in turn.
-- returns 1
-- keeps rules P.7
-- for every client

redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
