-- Marks the number of a call that its caller has given up, so that no late command with that number counts.
--
-- KEYS[1] marks   hash: number -> Unix ms, and the answer
-- ARGV[2] memory  ms for which the number is remembered
-- ARGV[3] number  of the call
-- returns 1 when the number was used before, 0 when it is marked now
-- keeps rules 2, A.6
-- for latches and both semaphores

if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1 then
  return 1
end
extend(KEYS[1], ARGV[2]) -- Redis then accepts the mark even when it is out of memory
note(KEYS[1], ARGV[3], ARGV[2])
return 0
