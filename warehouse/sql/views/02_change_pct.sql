-- change_pct: how far now is from before, in per cent of before, signed.
-- grain: scalar macro
-- reads: nothing
-- unit:  %; NULL where before is 0 or less or either is no finite number
-- Nothing that is compared can be negative: such a base is a mistake, not a base.
-- Rounded to 1e-9, so that 95 against 100 is -5 and not a hair more.
CREATE OR REPLACE MACRO change_pct(now, before) AS
    CASE WHEN isfinite(now) AND isfinite(before) AND before > 0 THEN round(100 * (now - before) / before, 9) END;
COMMENT ON MACRO change_pct IS 'How far now is from before, in per cent of before, signed; NULL where before is 0 or less or either is no finite number. now, before: values of one metric';
