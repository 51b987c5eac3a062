-- unknown_keys: numeric keys that mean none of our metrics, by format: what a new client has added
SELECT s.format, v.key, count(*) AS samples, min(v.number) AS lowest, max(v.number) AS highest
FROM raw_value v JOIN sample s ON s.run_id = v.run_id AND s.sample_no = v.sample_no
WHERE s.role = 'cell' AND v.parent = '' AND v.metric IS NULL AND v.kind = 'number' AND v.quality = 'ok'
GROUP BY ALL ORDER BY s.format, samples DESC, v.key;
