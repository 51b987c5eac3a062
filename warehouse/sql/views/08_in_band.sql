-- in_band: is a value at most so many per cent away from another, edges included?
-- grain: scalar macro
-- reads: nothing
-- unit:  boolean
-- Compared as the decimals that were written: 0.33 is within 10 % of 0.3, which
-- doubles deny. What has too many digits for that is compared as doubles, with
-- both forms of the band, since either alone loses an edge to float noise.
CREATE OR REPLACE MACRO in_band(got, wanted, tolerance_pct) AS
    coalesce(100 * abs(as_written(got) - as_written(wanted)) <= abs(as_written(wanted)) * CASE WHEN as_written(tolerance_pct) < 100000 THEN as_written(tolerance_pct)::DECIMAL(14, 9) END,
        abs(got - wanted) <= abs(wanted) * tolerance_pct / 100
        OR got BETWEEN wanted - abs(wanted) * tolerance_pct / 100 AND wanted + abs(wanted) * tolerance_pct / 100);
COMMENT ON MACRO in_band IS 'Whether a value is at most so many per cent away from another, edges included, compared as the decimals that were written. got, wanted: values of one metric; tolerance_pct: per cent of |wanted|';
