-- Gives the lock, instead of freeing it, from one holder to another; asked again after that, it answers the same.
--
-- KEYS[1] lock       hash: holder -> count; of a read-write lock with a mode
-- KEYS[2] abandoned  hash: number -> Unix ms
-- ARGV[1] next       the holder that gets it
-- ARGV[2] lease      ms, of the next one
-- ARGV[3] number     of the next one
-- ARGV[7] last       the holder that gives it up
-- returns 0 when given; -1 when the last one does not hold it; -2 when the next one gave up

return hand(KEYS[1], KEYS[2], ARGV[7], ARGV[1], ARGV[3], ARGV[2]) or 0
