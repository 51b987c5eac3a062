-- breaks_spec: would a value have failed a threshold?
-- grain: scalar macro
-- reads: nothing
-- unit:  boolean; NULL for kinds that need more than one value or none (min_ratio,
--        info)
CREATE OR REPLACE MACRO breaks_spec(kind, got, wanted, tolerance_pct) AS
    CASE WHEN kind IN ('min', 'min_tok_s') THEN got < wanted WHEN kind IN ('max', 'max_ms') THEN got > wanted
         WHEN kind = 'within' THEN NOT in_band(got, wanted, tolerance_pct) END;
COMMENT ON MACRO breaks_spec IS 'Whether a value would have failed a threshold; NULL for min_ratio and info. kind: of the spec; got: the value; wanted: of the spec; tolerance_pct: of within';
