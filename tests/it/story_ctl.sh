# Everything that a new user and an operator can do, with ctl and a shell without other programs.
#
# TOLLGATE_SERVER is the address of the admin plane, API that of the API, DATA the gateway's data
# directory, PASSWORD the user's password. The test reads the output of the commands from files.

alice() { HOME=$PWD/alice ctl "$@"; }
operator() { HOME=$PWD/operator TOLLGATE_DATA_DIR=$DATA ctl "$@"; }

# Fails unless the command exits with this code.
ends() {
    wanted=$1 code=0
    shift
    "$@" || code=$?
    test "$code" -eq "$wanted"
}

# Has a model call a tool and read its result, with the key in this file.
agent() {
    alice agent-config codex --check --model "$2" --key-file "$1" --base-url "$API" -o jsonl
}

# Waits until this number of requests is served and recorded.
served() {
    wanted=$1 count=0
    until test "$count" -ge "$wanted"; do
        set -- $(alice request list --status completed --quiet)
        count=$#
    done
}

# A new user registers and views the account, the plan and the catalogue.
printf '%s\n' "$PASSWORD" > password
ends 3 alice whoami 2> anonymous.txt
alice register alice --password-stdin < password
ends 5 alice register alice --password-stdin < password 2> taken.txt
alice login alice --password-stdin < password
alice whoami -o json > whoami.json
alice plan show free -o json > plan.json
alice account limits -o json > limits.json
alice model list -o json > models.json
alice model show sim-chat -o json > model.json
alice session list -o json > sessions.json

# A key and its use.
alice key create laptop --quiet > laptop.key
agent laptop.key sim-chat > turn.jsonl
served 2
alice usage -o json > usage.json
alice usage > usage.table
alice request list --filter 'model:sim-chat status:completed tokens>0' -o jsonl > requests.jsonl
set -- $(alice request list --quiet)
alice request show "$1" -o json > request.json
alice request export --format csv > requests.csv
alice ledger list -o json > ledger.json

# The key is rotated, then revoked.
set -- $(alice key list --quiet)
alice key rotate "$1" --overlap 0s --quiet > successor.key
ends 1 agent laptop.key sim-chat 2> replaced.txt
agent successor.key sim-chat > again.jsonl
set -- $(alice key list --quiet)
alice key revoke "$1" -o json > revoked.json
ends 1 agent successor.key sim-chat 2> revoked.txt
alice key list -o json > keys.json
ends 3 alice account list 2> forbidden.txt

# The operator token is in the gateway's data directory. The operator manages the account.
operator whoami -o json > operator.json
operator account credit alice 2.5 --reason gift
alice whoami -o json > credited.json
alice key create spare --quiet > spare.key
operator account suspend alice --reason overdue
ends 1 agent spare.key sim-chat 2> suspended.txt
operator account resume alice
operator account list -o json > accounts.json

# An upstream and a model, then the catalogue as a file.
operator upstream add local --url sim:
operator model add house --upstream local:sim-chat --display-name House --context 8192 \
    --ability tools --price-in 1 --price-cached 0.1 --price-out 2 --rpm 600
agent spare.key house > house.jsonl
operator upstream health -o json > health.json
operator export > catalogue.toml
operator apply -f catalogue.toml 2> same.txt
operator model remove house
operator upstream remove local
ends 4 alice model show house 2> removed.txt
operator apply -f catalogue.toml --dry-run -o json > difference.json
operator apply -f catalogue.toml
agent spare.key house > restored.jsonl
operator export > restored.toml

# Traffic, audit log, verification and backup.
served 8
operator traffic --account '*' -o json > traffic.json
operator audit list --account alice -o json > audit.json
operator ledger verify -o json > proof.json
operator doctor -o json > doctor.json
operator backup copy.db
ends 5 operator backup copy.db 2> there.txt

alice logout
ends 3 alice whoami 2> gone.txt
