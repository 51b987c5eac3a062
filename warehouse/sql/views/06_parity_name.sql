-- parity_name: what a parity ratio is called in sidecars.
-- grain: scalar macro
-- reads: nothing
-- unit:  text: compare.vllm, compare.sglang or compare.framework, by the driver
--        of the candidate, then metric and _ratio
CREATE OR REPLACE MACRO parity_name(driver, metric) AS
    CASE WHEN metric = '' THEN '' ELSE
    CASE driver WHEN 'vllm_atom' THEN 'compare.vllm' WHEN 'sglang' THEN 'compare.sglang' ELSE 'compare.framework' END || '.' || metric || '_ratio' END;
COMMENT ON MACRO parity_name IS 'What a parity ratio is called in sidecars, such as compare.vllm.output_throughput_ratio. driver: of the candidate; metric: name in metric_def';
