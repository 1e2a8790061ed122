//! `ctl account people …`, and the printed form of people.

use proto::v1::people_service_client::PeopleServiceClient;
use proto::v1::{
    AddPersonRequest, ListPeopleRequest, Person, RemovePersonRequest, SetPersonRoleRequest,
};
use serde::Serialize;

use crate::Shell;
use crate::cli::people::{Add, PeopleCommand, PersonRole, Set};
use crate::commands::{enum_name, required, rfc3339};
use crate::error::Failure;
use crate::output::Record;

/// A person, as printed.
#[derive(Serialize)]
pub(in crate::commands) struct PersonRecord {
    name: String,
    role: Option<String>,
    removed: bool,
    account: String,
    created_at: Option<String>,
    id: String,
}

/// A new person with its code, printed only at creation.
#[derive(Serialize)]
struct NewPersonRecord {
    code: String,
    expires_at: Option<String>,
    #[serde(flatten)]
    person: PersonRecord,
}

/// Runs `ctl account people …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: PeopleCommand) -> Result<(), Failure> {
    match command {
        PeopleCommand::Add(input) => add(shell, input).await,
        PeopleCommand::List(input) => list(shell, input.account).await,
        PeopleCommand::Set(input) => set(shell, input).await,
        PeopleCommand::Remove(input) => remove(shell, input.name).await,
    }
}

async fn add(shell: &mut Shell<'_>, input: Add) -> Result<(), Failure> {
    let Add { name, role, account } = input;
    let request = AddPersonRequest { account, name, role: role.number() };
    let mut client = PeopleServiceClient::new(shell.connect().await?);
    let answer = client.add_person(request).await?.into_inner();
    let person = PersonRecord::from(required(answer.person, "person")?);
    let name = person.name.clone();
    let expires_at = rfc3339(answer.expires_at);
    shell.output.one(&NewPersonRecord { code: answer.code, expires_at, person })?;
    shell.output.note(&format!(
        "give the code to that person, who sets a password with it: ctl login {name} --reset-code CODE"
    ));
    Ok(())
}

async fn list(shell: &mut Shell<'_>, account: String) -> Result<(), Failure> {
    let mut client = PeopleServiceClient::new(shell.connect().await?);
    let answer = client.list_people(ListPeopleRequest { account }).await?.into_inner();
    let people: Vec<_> = answer.people.into_iter().map(PersonRecord::from).collect();
    shell.output.many(&people)
}

async fn set(shell: &mut Shell<'_>, input: Set) -> Result<(), Failure> {
    let request = SetPersonRoleRequest { person: input.name, role: input.role.number() };
    let mut client = PeopleServiceClient::new(shell.connect().await?);
    let answer = client.set_person_role(request).await?.into_inner();
    shell.output.one(&PersonRecord::from(required(answer.person, "person")?))
}

async fn remove(shell: &mut Shell<'_>, name: String) -> Result<(), Failure> {
    // The person is not looked up: operators list people by account, which the command does not have.
    shell.confirm(&format!("Remove person {name}? Its sessions end; its keys stay."))?;
    let mut client = PeopleServiceClient::new(shell.connect().await?);
    client.remove_person(RemovePersonRequest { person: name.clone() }).await?;
    shell.output.note(&format!("removed `{name}`; `ctl key list` shows the keys that it created"));
    Ok(())
}

impl PersonRole {
    fn number(self) -> i32 {
        match self {
            Self::Member => proto::v1::PersonRole::Member,
            Self::Admin => proto::v1::PersonRole::Admin,
        }
        .into()
    }
}

impl From<Person> for PersonRecord {
    fn from(person: Person) -> Self {
        Self {
            role: enum_name(person.role().as_str_name(), "PERSON_ROLE_"),
            name: person.name,
            removed: person.removed,
            account: person.account,
            created_at: rfc3339(person.created_at),
            id: person.id,
        }
    }
}

impl Record for PersonRecord {
    const FIELDS: &'static [&'static str] =
        &["name", "role", "removed", "account", "created_at", "id"];
    const COLUMNS: &'static [&'static str] = &["name", "role", "removed", "account", "created_at"];
}

impl Record for NewPersonRecord {
    const FIELDS: &'static [&'static str] =
        &["code", "expires_at", "name", "role", "removed", "account", "created_at", "id"];
    const COLUMNS: &'static [&'static str] = &["code", "expires_at", "name", "role", "account"];
}
