-- Gives the lock from one holder directly to another. A repeated call returns the same.
--
-- KEYS[1] lock       hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] tombstones hash: number -> Unix ms
-- ARGV[1] next       the holder that gets the lock
-- ARGV[2] lease      ms, of the next holder
-- ARGV[3] number     of the next holder
-- ARGV[7] last       the holder that gives the lock up
-- returns 0 when given; -1 when the last holder does not hold it; -2 when the next holder has a tombstone

return hand(KEYS[1], KEYS[2], ARGV[7], ARGV[1], ARGV[3], ARGV[2]) or 0
