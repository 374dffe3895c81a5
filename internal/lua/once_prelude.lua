-- Returns what the call with a number answered, or nil if the number was not used yet. A number that its caller has given up
-- has no answer: then the result is 0, which nobody reads.
local function answered(marks, number)
  local mark = redis.call('HGET', marks, number)
  if not mark then
    return nil
  end
  local sign, digits = string.match(mark, '%.([01])(%d+)$')
  if not sign then
    return 0
  end
  return sign == '0' and tonumber(digits) or -tonumber(digits)
end

-- Notes that a number was used, for a time in ms, and what it answered. nil means that it has no answer. The marks are the
-- tombstones: the answer stands behind the point of the time, after a 0, or after a 1 if it is negative. An integer between
-- -2^53 and 2^53 is exact.
--
-- A script looks at everything that may fail, notes, and then changes something. A failure thus never counts unnoticed. Redis
-- refuses the note when it is out of memory. A script that must run even then extends the marks before.
--
-- over has the numbers, with spaces between them, of earlier calls of which no command can be on its way. Their marks go, so that
-- there are not as many marks as calls.
local function note(marks, number, memory, answer, over)
  abandon(marks, number, memory, answer and string.format(answer < 0 and '.1%.0f' or '.0%.0f', math.abs(answer)))
  for earlier in string.gmatch(over or '', '%d+') do
    redis.call('HDEL', marks, earlier)
  end
end
