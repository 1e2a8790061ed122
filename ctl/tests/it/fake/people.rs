//! Canned people of an account.

use proto::v1::people_service_server::PeopleService;
use proto::v1::*;
use tonic::Request;

use super::{Answer, FakeGateway, answer, at};

fn person(name: &str, role: i32) -> Person {
    Person {
        id: "0198c5f0-0000-7000-8000-0000000ca201".to_owned(),
        name: name.to_owned(),
        account: "alice".to_owned(),
        role,
        removed: name == "dave",
        created_at: at(0, 0),
    }
}

#[tonic::async_trait]
impl PeopleService for FakeGateway {
    async fn add_person(&self, request: Request<AddPersonRequest>) -> Answer<AddPersonResponse> {
        let input = self.record("AddPerson", request)?;
        answer(AddPersonResponse {
            person: Some(person(&input.name, input.role)),
            code: "tgr-4c3f".to_owned(),
            expires_at: at(60, 0),
        })
    }

    async fn list_people(&self, request: Request<ListPeopleRequest>) -> Answer<ListPeopleResponse> {
        self.record("ListPeople", request)?;
        let people = vec![
            person("carol", PersonRole::Admin.into()),
            person("dave", PersonRole::Member.into()),
        ];
        answer(ListPeopleResponse { people })
    }

    async fn set_person_role(
        &self,
        request: Request<SetPersonRoleRequest>,
    ) -> Answer<SetPersonRoleResponse> {
        let input = self.record("SetPersonRole", request)?;
        answer(SetPersonRoleResponse { person: Some(person(&input.person, input.role)) })
    }

    async fn remove_person(
        &self,
        request: Request<RemovePersonRequest>,
    ) -> Answer<RemovePersonResponse> {
        self.record("RemovePerson", request)?;
        answer(RemovePersonResponse {})
    }
}
