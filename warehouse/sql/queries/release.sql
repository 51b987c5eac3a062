-- release: may it ship? every run of the warehouse against a policy; --param policy="$(cat policy.json)"
SELECT scope, name, wants, run_id, verdict, signoff, waived, reasons, exit_code
FROM release_check($policy, NULL, now()::TIMESTAMP) ORDER BY scope = 'unused', scope = 'release', ordinal;
