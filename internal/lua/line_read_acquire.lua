-- Takes the read lock unless another owner holds the write lock, or this reader has to wait for a writer that stands in the line: one
-- that came before it, if no writer has left the lock since the reader came. A repeated call by the holder counts nothing.
--
-- KEYS[1] lock       hash: mode -> read or write, holder -> count
-- KEYS[2] line       zset: waiter -> Unix us of its arrival
-- KEYS[3] hold       a string that lives as long as this hold
-- KEYS[4] tombstones hash: number -> Unix ms
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- ARGV[4] base       Redisson's channel
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] waited     us since the reader came; negative if it does not wait
-- ARGV[7] writer     the field with which the same owner holds the write lock; empty if it does not
-- returns 0 when acquired; when refused, -1 minus the ms until another attempt may succeed
-- keeps rules A.1, A.3, A.4, A.6, A.7, G.1, G.5, S.1, S.4, S.9, S.12
-- for read

if redis.call('HEXISTS', KEYS[4], ARGV[3]) == 1 then
  return -1
end

local mode = redis.call('HGET', KEYS[1], ModeField)
local free = not mode and redis.call('EXISTS', KEYS[1]) == 0
local held = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
local may = held or free or mode == ReadMode or mode == WriteMode and redis.call('HEXISTS', KEYS[1], ARGV[7]) == 1
local joins = not held and may and mode ~= WriteMode -- whoever holds the lock already waits for nobody
if may and not (joins and redis.pcall('EXISTS', KEYS[2]) ~= 0) then
  return read(KEYS[1], KEYS[3], ARGV[1], ARGV[2], free)
end

-- functions
local waits = tonumber(ARGV[6]) >= 0 -- whoever does not would leave a mark by which the next writer waits for nobody
if joins then
  local able, hint = pcall(yield, KEYS[1], KEYS[2], free, ARGV[6], ARGV[5], ARGV[4])
  if not able and denied(hint) then
    return failure(hint)
  end
  if not (able and hint or free and redis.call('EXISTS', KEYS[1]) == 1) then
    return read(KEYS[1], KEYS[3], ARGV[1], ARGV[2], free)
  end
  if waits then
    noteReaders(KEYS[2])
  end
  return able and hint or -1 - FirstTerm
end
if waits and mode == WriteMode then
  noteReaders(KEYS[2])
end
return refused(KEYS[1], ARGV[2]) -- a key that is not a read-write lock belongs to another lock, or is foreign data
