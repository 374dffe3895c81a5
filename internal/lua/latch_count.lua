-- Returns the count of a latch.
--
-- KEYS[1] latch  the count; no key means that the latch is open
-- returns the count; 0 when there is no key
-- keeps rules 2
-- for latches

local count, wrong = counter(KEYS[1])
return wrong or count or 0
