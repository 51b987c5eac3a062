-- mean_change: the geometric mean of ratios of a metric as one change, with its
-- 95 % interval.
-- grain: scalar macro; a struct of cells, better_pct, low_pct, high_pct
-- reads: nothing
-- unit:  %, + for better; the interval is NULL for less than two ratios, all are
-- NULL where the metric has no better
-- The interval is Student's t over the logarithms of the ratios: how far the mean
-- would move with other cells of the same kind. It says nothing of the spread
-- between runs; see view noise. Ratios that are not positive are left out.
CREATE OR REPLACE MACRO mean_change(ratios, direction) AS
    list_transform([list_transform(list_filter(ratios, lambda r: r > 0 AND isfinite(r)), lambda r: ln(r))], lambda l: {
        cells: len(l),
        better_pct: better_pct(100 * (exp(list_avg(l)) - 1), direction),
        low_pct: better_pct(100 * (exp(list_avg(l) + CASE direction WHEN 'lower' THEN 1 ELSE -1 END * t975(len(l) - 1) * list_stddev_samp(l) / sqrt(len(l))) - 1), direction),
        high_pct: better_pct(100 * (exp(list_avg(l) + CASE direction WHEN 'lower' THEN -1 ELSE 1 END * t975(len(l) - 1) * list_stddev_samp(l) / sqrt(len(l))) - 1), direction)
    })[1];
COMMENT ON MACRO mean_change IS 'The geometric mean of ratios of a metric as one change: a struct of cells, better_pct, low_pct and high_pct (95 % interval over the cells). ratios: list of now / before; direction: higher, lower or neutral';
