-- student_p: the two-sided p-value of Student's t.
-- grain: scalar macro
-- reads: nothing
-- unit:  a probability; NULL where t or df is, or df is not positive
-- P(|T| > t) = 1 - 2 / sqrt(pi) * G((df + 1) / 2) / G(df / 2) * the integral of
-- cos(x) ^ (df - 1) from 0 to atan(t / sqrt(df)) (Abramowitz and Stegun 26.7.1 with
-- t = sqrt(df) tan x), by Simpson's rule on 200 intervals: right to 1e-6 for df >= 2
-- and t that anybody measures. Degrees of freedom need not be whole.
CREATE OR REPLACE MACRO student_p(t, df) AS
    CASE WHEN df > 0 AND isfinite(t) THEN
        greatest(0.0, 1 - 2 / sqrt(pi()) * exp(lgamma((df + 1) / 2) - lgamma(df / 2)) * atan(abs(t) / sqrt(df)) / 600 * list_sum(list_transform(range(0, 201), lambda i:
            CASE WHEN i = 0 OR i = 200 THEN 1 WHEN i % 2 = 1 THEN 4 ELSE 2 END * pow(cos(atan(abs(t) / sqrt(df)) * i / 200), df - 1))))
    END;
COMMENT ON MACRO student_p IS 'The two-sided p-value of Student''s t; NULL if df is not positive. t: statistic, df: degrees of freedom, not necessarily whole';
