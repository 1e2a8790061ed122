//! The people of another account.

use proto::v1;
use tests::Session;

use super::attempt::{Case, shown};
use super::{Rule, Victim};

pub(super) async fn attempt(rpc: &str, caller: &Session, victim: &Victim) -> Option<Case> {
    let mut all = Vec::new();
    let people = [victim.person.name.clone(), victim.person_id.clone()];
    let rule = match rpc {
        "PeopleService/AddPerson" => {
            for account in victim.names() {
                let (name, role) = ("mallory".to_owned(), v1::PersonRole::Admin.into());
                let request = v1::AddPersonRequest { account, name, role };
                all.push(shown(caller.people().add_person(request).await));
            }
            Rule::HiddenOperator
        }
        "PeopleService/ListPeople" => {
            for account in victim.names() {
                let request = v1::ListPeopleRequest { account };
                all.push(shown(caller.people().list_people(request).await));
            }
            Rule::Hidden
        }
        "PeopleService/SetPersonRole" => {
            for person in people {
                let role = v1::PersonRole::Admin.into();
                let request = v1::SetPersonRoleRequest { person, role };
                all.push(shown(caller.people().set_person_role(request).await));
            }
            Rule::HiddenOperator
        }
        "PeopleService/RemovePerson" => {
            for person in people {
                let request = v1::RemovePersonRequest { person };
                all.push(shown(caller.people().remove_person(request).await));
            }
            Rule::HiddenOperator
        }
        _ => return None,
    };
    Some(Case { rule, attempts: all, foreign: Vec::new() })
}
