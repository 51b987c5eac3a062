-- num_text: a number as people write it, with every digit it has.
-- grain: scalar macro
-- reads: nothing
-- unit:  none; NULL, NaN and the infinities come out as text or NULL
CREATE OR REPLACE MACRO num_text(x) AS
    CASE WHEN x IS NULL THEN NULL
         WHEN isfinite(x) AND abs(x) < 1e15 THEN regexp_replace(x::VARCHAR, '\.0$', '')
         ELSE x::VARCHAR END;
COMMENT ON MACRO num_text IS 'A number as people write it, with every digit it has. x: number';
