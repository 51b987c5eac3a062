-- t975: the 97.5 % point of Student's t, for two-sided 95 % intervals.
-- grain: scalar macro
-- reads: nothing
-- unit:  none; NULL for less than one degree of freedom
-- Up to 30 degrees of freedom from the table, beyond by the expansion of Fisher
-- and Cornish around the normal distribution, which is right to 0.0001 there.
CREATE OR REPLACE MACRO t975(df) AS
    CASE WHEN df < 1 THEN NULL
         WHEN df <= 30 THEN [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314,
             2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423][df::INTEGER]::DOUBLE
         ELSE 1.959964 + 2.372271 / df + 2.822250 / (df * df) END;
COMMENT ON MACRO t975 IS 'The 97.5 % point of Student''s t, for two-sided 95 % intervals; NULL for less than one degree of freedom. df: degrees of freedom';
