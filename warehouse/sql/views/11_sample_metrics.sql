-- sample_metrics: everything one benchmark says, with the metrics computed from
-- others of the same benchmark; the formulas are those of metric_def.derived.
-- grain: run_id, sample_no, metric
-- reads: sample_values, run, expected_cell, sample
-- unit:  as in metric_def; value is NULL unless quality is ok
-- An operand that cannot be used makes the result unusable with the same reason;
-- an operand that is not there makes it missing, and missing rows are left out.
CREATE OR REPLACE VIEW sample_metrics AS
WITH w AS (
    SELECT run_id, sample_no, any_value(cell_key) AS cell_key, any_value(host) AS host, any_value(repeat) AS repeat,
           -- the copied rows travel along, so that the values are read once
           list({metric: metric, value: value, quality: quality, note: note, raw_key: key, text: text, source: 2}) AS copied,
           max(value) FILTER (WHERE metric = 'num_prompts') AS sent_file,
           coalesce(max(quality) FILTER (WHERE metric = 'num_prompts'), 'null') = 'null' AS sent_unsaid,
           max(value) FILTER (WHERE metric = 'completed') AS c,
           max(quality) FILTER (WHERE metric = 'completed') AS c_q,
           max(note) FILTER (WHERE metric = 'completed') AS c_n,
           max(value) FILTER (WHERE metric = 'failed') AS f,
           max(quality) FILTER (WHERE metric = 'failed') AS f_q,
           max(note) FILTER (WHERE metric = 'failed') AS f_n,
           max(text) FILTER (WHERE metric = 'failed') AS f_t,
           max(value) FILTER (WHERE metric = 'total_token_throughput') AS tot,
           max(quality) FILTER (WHERE metric = 'total_token_throughput') AS tot_q,
           max(note) FILTER (WHERE metric = 'total_token_throughput') AS tot_n,
           max(value) FILTER (WHERE metric = 'output_throughput') AS o,
           max(quality) FILTER (WHERE metric = 'output_throughput') AS o_q,
           max(note) FILTER (WHERE metric = 'output_throughput') AS o_n,
           max(value) FILTER (WHERE metric = 'duration') AS dur,
           max(value) FILTER (WHERE metric = 'total_input_tokens') AS t_in,
           max(value) FILTER (WHERE metric = 'total_output_tokens') AS t_out,
           max({quality: quality, note: note}) FILTER (WHERE metric IN ('duration', 'total_input_tokens', 'total_output_tokens') AND quality NOT IN ('ok', 'null')) AS part_bad,
           max(value) FILTER (WHERE metric = 'mean_ttft_ms') AS ttft,
           max(quality) FILTER (WHERE metric = 'mean_ttft_ms') AS ttft_q,
           max(note) FILTER (WHERE metric = 'mean_ttft_ms') AS ttft_n,
           max(value) FILTER (WHERE metric = 'median_tpot_ms') AS tpot,
           max(quality) FILTER (WHERE metric = 'median_tpot_ms') AS tpot_q,
           max(note) FILTER (WHERE metric = 'median_tpot_ms') AS tpot_n,
           max(value) FILTER (WHERE metric = 'p99_itl_ms') AS itl99,
           max(quality) FILTER (WHERE metric = 'p99_itl_ms') AS itl99_q,
           max(note) FILTER (WHERE metric = 'p99_itl_ms') AS itl99_n,
           max(value) FILTER (WHERE metric = 'median_itl_ms') AS itl50m,
           max(value) FILTER (WHERE NOT known AND key = 'p50_itl_ms') AS itl50p,
           max({quality: quality, note: note}) FILTER (WHERE metric = 'median_itl_ms' AND quality NOT IN ('ok', 'null')) AS itl50m_bad,
           max({quality: quality, note: note}) FILTER (WHERE NOT known AND key = 'p50_itl_ms' AND quality NOT IN ('ok', 'null')) AS itl50p_bad,
           max(value) FILTER (WHERE NOT known AND key = 'input_throughput') AS in_tput,
           max(value) FILTER (WHERE NOT known AND key = 'spec_decode_acceptance_rate') AS sd_rate,
           max(value) FILTER (WHERE NOT known AND key = 'spec_decode_acceptance_length') AS sd_len,
           max(value) FILTER (WHERE metric = 'mtp.acceptance_rate') AS acc_rate,
           max(value) FILTER (WHERE metric = 'mtp.accept_length') AS acc_len
    FROM sample_values
    GROUP BY run_id, sample_no
), x AS (
    SELECT w.*, s.format,
           -- the plan speaks where the file is silent, not where it contradicts
           CASE WHEN sent_unsaid THEN e.num_prompts ELSE sent_file END AS sent,
           sent_unsaid AND e.num_prompts IS NOT NULL AS sent_planned,
           coalesce(e.isl, s.isl) AS isl,
           r.tp, r.nnodes, r.scaling_baseline,
           r.tp * r.pp * r.dp AS gpus,
           coalesce(itl50p, itl50m) AS itl50,
           CASE WHEN itl50p IS NULL THEN coalesce(itl50p_bad, itl50m_bad) END AS itl50_bad,
           coalesce(f_q, 'null') IN ('null', 'missing') AS f_absent
    FROM w
    JOIN run r ON r.run_id = w.run_id
    JOIN sample s ON s.run_id = w.run_id AND s.sample_no = w.sample_no
    LEFT JOIN expected_cell e ON e.run_id = w.run_id AND e.cell_key = w.cell_key
), y AS (
    SELECT x.*,
           c > sent AS over,
           NOT f_absent AND f_q = 'ok' AND c + f < sent AS under,
           CASE WHEN f_absent THEN sent - c ELSE f END AS lost,
           -- sglang before 0.5 and vLLM of 2024 report both halves but not the sum
           coalesce(tot_q, 'null') = 'null' AND (format = 'sglang_bench_serving' OR in_tput IS NOT NULL) AS tot_sum,
           tot_sum AND t_in IS NOT NULL AND t_out IS NOT NULL AND dur > 0 AS tot_made,
           tot_sum AND part_bad IS NOT NULL AS tot_bad
    FROM x
), z AS (
    SELECT y.*,
           CASE WHEN tot_made THEN (t_in + t_out) / dur ELSE tot END AS total,
           CASE WHEN tot_made THEN 'ok' WHEN tot_bad THEN part_bad.quality ELSE tot_q END AS total_q,
           CASE WHEN tot_made THEN NULL WHEN tot_bad THEN part_bad.note ELSE tot_n END AS total_n
    FROM y
), d AS (
    SELECT run_id, sample_no, cell_key, host, repeat, unnest(list_concat(copied, [
        {metric: 'failed',
         value: CASE WHEN over OR under THEN NULL ELSE lost END,
         quality: CASE WHEN over OR under THEN 'contradiction'
                       WHEN NOT f_absent THEN f_q
                       WHEN c_q NOT IN ('ok', 'null') THEN c_q
                       WHEN lost IS NULL THEN 'missing' ELSE 'ok' END,
         note: CASE WHEN over THEN 'completed ' || num_text(c) || ' is more than the ' || num_text(sent) || ' prompts sent'
                    WHEN under THEN 'completed ' || num_text(c) || ' + failed ' || num_text(f) || ' account for ' || num_text(c + f) || ' of ' || num_text(sent) || ' prompts'
                    WHEN NOT f_absent THEN f_n
                    WHEN c_q <> 'ok' THEN c_n
                    WHEN sent_planned THEN 'derived: num_prompts of the plan - completed'
                    ELSE 'derived: num_prompts - completed' END,
         raw_key: CASE WHEN NOT f_absent THEN 'failed' END,
         text: CASE WHEN NOT f_absent THEN f_t WHEN over THEN num_text(lost) END, source: 1},
        {metric: 'success_rate',
         value: CASE WHEN over THEN NULL WHEN under THEN c / nullif(sent, 0) ELSE c / nullif(c + lost, 0) END,
         quality: CASE WHEN over THEN 'contradiction'
                       WHEN c_q NOT IN ('ok', 'null') THEN c_q
                       WHEN NOT f_absent AND f_q <> 'ok' THEN f_q
                       WHEN c IS NULL OR lost IS NULL OR c + lost = 0 THEN 'missing' ELSE 'ok' END,
         note: CASE WHEN over THEN 'completed ' || num_text(c) || ' is more than the ' || num_text(sent) || ' prompts sent'
                    WHEN c_q <> 'ok' THEN c_n
                    WHEN NOT f_absent AND f_q <> 'ok' THEN f_n
                    WHEN under THEN 'completed / num_prompts: the counts do not add up'
                    ELSE 'completed / (completed + failed)' END,
         raw_key: NULL::VARCHAR, text: NULL::VARCHAR, source: 1},
        {metric: 'total_token_throughput',
         value: CASE WHEN tot_made THEN total END,
         quality: CASE WHEN tot_made OR tot_bad THEN total_q ELSE 'missing' END,
         note: coalesce(total_n, 'derived: (total_input_tokens + total_output_tokens) / duration'), raw_key: NULL, text: NULL, source: 1},
        {metric: 'per_gpu_throughput',
         value: total / nullif(gpus, 0),
         quality: CASE WHEN total_q IS NULL OR total_q = 'null' OR coalesce(gpus, 0) = 0 THEN 'missing' ELSE total_q END,
         note: coalesce(total_n, 'total_token_throughput / ' || gpus || ' GPUs'), raw_key: NULL, text: NULL, source: 1},
        {metric: 'output_tput_per_gpu',
         value: o / nullif(gpus, 0),
         quality: CASE WHEN o_q IS NULL OR o_q = 'null' OR coalesce(gpus, 0) = 0 THEN 'missing' ELSE o_q END,
         note: coalesce(o_n, 'output_throughput / ' || gpus || ' GPUs'), raw_key: NULL, text: NULL, source: 1},
        {metric: 'per_gpu_throughput_per_tp',
         value: total / nullif(tp, 0),
         quality: CASE WHEN total_q IS NULL OR total_q = 'null' OR coalesce(tp, 0) = 0 THEN 'missing' ELSE total_q END,
         note: coalesce(total_n, 'total_token_throughput / TP ' || tp), raw_key: NULL, text: NULL, source: 1},
        {metric: 'decode_throughput_p50',
         value: 1000 / nullif(tpot, 0),
         quality: CASE WHEN tpot_q IS NULL OR tpot_q = 'null' OR tpot = 0 THEN 'missing' ELSE tpot_q END,
         note: coalesce(tpot_n, '1000 / median_tpot_ms'), raw_key: NULL, text: NULL, source: 1},
        {metric: 'normalized_ttft_ms_per_tok',
         value: ttft / nullif(isl, 0),
         quality: CASE WHEN ttft_q IS NULL OR ttft_q = 'null' OR coalesce(isl, 0) = 0 THEN 'missing' ELSE ttft_q END,
         note: coalesce(ttft_n, 'mean_ttft_ms / ISL ' || isl), raw_key: NULL, text: NULL, source: 1},
        {metric: 'decode_latency_ratio',
         value: itl99 / nullif(itl50, 0),
         quality: CASE WHEN itl99_q IS NULL OR itl99_q = 'null' THEN 'missing' WHEN itl99_q <> 'ok' THEN itl99_q
                       WHEN itl50_bad IS NOT NULL THEN itl50_bad.quality
                       WHEN itl50 IS NULL OR itl50 = 0 THEN 'missing' ELSE 'ok' END,
         note: coalesce(itl99_n, itl50_bad.note, CASE WHEN itl50p IS NOT NULL THEN 'p99_itl_ms / p50_itl_ms' ELSE 'p99_itl_ms / median_itl_ms (the median is p50)' END),
         raw_key: NULL, text: NULL, source: 1},
        {metric: 'scaling.efficiency_pct',
         value: 100 * o / nullif(scaling_baseline * nnodes, 0),
         quality: CASE WHEN o_q IS NULL OR o_q = 'null' OR coalesce(scaling_baseline, 0) <= 0 OR coalesce(nnodes, 0) < 1 THEN 'missing' ELSE o_q END,
         note: coalesce(o_n, '100 * output_throughput / (' || num_text(scaling_baseline) || ' * ' || nnodes || ' nodes)'), raw_key: NULL, text: NULL, source: 1},
        {metric: 'mtp.acceptance_rate',
         value: CASE WHEN acc_rate IS NULL THEN sd_rate / 100 END,
         quality: CASE WHEN acc_rate IS NULL AND sd_rate IS NOT NULL THEN 'ok' ELSE 'missing' END,
         note: 'derived: spec_decode_acceptance_rate / 100', raw_key: NULL, text: NULL, source: 1},
        {metric: 'mtp.accept_length',
         value: CASE WHEN acc_len IS NULL THEN sd_len END,
         quality: CASE WHEN acc_len IS NULL AND sd_len IS NOT NULL THEN 'ok' ELSE 'missing' END,
         note: 'spec_decode_acceptance_length', raw_key: NULL, text: NULL, source: 1}
    ]), recursive := true)
    FROM z
)
SELECT run_id, sample_no, cell_key, host, repeat, metric,
       CASE WHEN quality = 'ok' AND isfinite(value) THEN value END AS value,
       -- an overflow of the arithmetic itself is no number either
       CASE WHEN quality = 'ok' AND NOT coalesce(isfinite(value), false) THEN 'non_finite' ELSE quality END AS quality,
       text, note, raw_key AS key, source = 1 AND raw_key IS NULL AS derived
FROM d
WHERE quality <> 'missing'
QUALIFY source = min(source) OVER (PARTITION BY run_id, sample_no, metric);
COMMENT ON VIEW sample_metrics IS 'Everything one benchmark says, copied or computed; one row per run, sample and metric';
COMMENT ON COLUMN sample_metrics.run_id IS 'run';
COMMENT ON COLUMN sample_metrics.sample_no IS 'benchmark within the run, from 1';
COMMENT ON COLUMN sample_metrics.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN sample_metrics.host IS 'node the file came from, empty if unknown';
COMMENT ON COLUMN sample_metrics.repeat IS 'repeat of the cell, from 1';
COMMENT ON COLUMN sample_metrics.metric IS 'our name, or the raw key where it means none of ours';
COMMENT ON COLUMN sample_metrics.value IS 'the number, NULL unless quality is ok';
COMMENT ON COLUMN sample_metrics.quality IS 'ok, null, non_numeric, non_finite, out_of_range, impossible, contradiction, not_applicable';
COMMENT ON COLUMN sample_metrics.text IS 'the value as written; NULL if computed';
COMMENT ON COLUMN sample_metrics.note IS 'formula, or why the value cannot be used';
COMMENT ON COLUMN sample_metrics.key IS 'key in the raw file, NULL if computed';
COMMENT ON COLUMN sample_metrics.derived IS 'true: computed, not copied from the file';
