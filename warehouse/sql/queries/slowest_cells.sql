-- slowest_cells: cells of a run by mean TTFT, the slowest first; --param run=RUN
SELECT cell_id, isl, osl, concurrency, mean_ttft_ms, p99_ttft_ms, mean_tpot_ms, output_throughput
FROM cells WHERE run_id = $run ORDER BY mean_ttft_ms DESC NULLS LAST, ordinal;
