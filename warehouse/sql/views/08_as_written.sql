-- as_written: a number as the decimal it was written as.
-- grain: scalar macro; DECIMAL(24,9)
-- reads: nothing
-- unit:  that of x; NULL where such a decimal does not hold it exactly
-- A double is the nearest to what was written, and its shortest text is that
-- again; sums and products of doubles are not.
CREATE OR REPLACE MACRO as_written(x) AS
    CASE WHEN TRY_CAST(x::VARCHAR AS DECIMAL(24, 9))::DOUBLE = x THEN TRY_CAST(x::VARCHAR AS DECIMAL(24, 9)) END;
COMMENT ON MACRO as_written IS 'A number as the decimal it was written as, DECIMAL(24,9); NULL where that does not hold it exactly. x: number';
