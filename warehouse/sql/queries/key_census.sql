-- key_census: every key that result files of each format hold, known to us or not, with how often and since when
SELECT s.format, v.parent || '/' || v.key AS key, v.metric, v.kind, count(*) AS samples, count(DISTINCT v.run_id) AS runs, min(r.started_at) AS first_seen, max(r.started_at) AS last_seen
FROM raw_value v JOIN sample s ON s.run_id = v.run_id AND s.sample_no = v.sample_no JOIN run r ON r.run_id = v.run_id
WHERE s.role = 'cell' GROUP BY ALL ORDER BY s.format, samples DESC, key;
