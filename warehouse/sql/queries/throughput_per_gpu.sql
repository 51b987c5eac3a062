-- throughput_per_gpu: the best output throughput per GPU of each configuration and shape, with the concurrency it takes
SELECT i.driver, i.model, i.gpu, c.isl, c.osl, max(c.output_tput_per_gpu) AS best, arg_max(c.concurrency, c.output_tput_per_gpu) AS concurrency, arg_max(c.run_id, c.output_tput_per_gpu) AS run_id
FROM cells c JOIN run_identity i ON i.run_id = c.run_id WHERE c.output_tput_per_gpu IS NOT NULL
GROUP BY ALL ORDER BY i.model, i.driver, i.gpu, c.isl, c.osl;
