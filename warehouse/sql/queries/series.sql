-- series: comparable series with their number of runs and latest output throughput
SELECT series_id, cell_key, count(*) AS runs, min(started_at) AS first_run, max(started_at) AS last_run, arg_max(value, sequence) AS latest, median(value) AS mid
FROM history WHERE metric = 'output_throughput' GROUP BY ALL ORDER BY runs DESC, series_id, cell_key;
